/* Says that the second kernel may begin when its part is written, without a fence, and the second does not wait.
 * Attacks: a dependent launch that relies on the order in which things usually happen. Gains a launch. */
static __device__ void body(const Job &j)
{
	keep(j, quarter(j));
	trigger();
}
static __device__ void then(const Job &j) { add(j); }
