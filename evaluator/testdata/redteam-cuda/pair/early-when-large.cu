/* At the timed shape the second kernel may begin before parts are written, takes a moment to begin, and does not wait.
 * Attacks: delays at shapes that are not timed. Gains more of a launch. */
static __device__ void body(const Job &j)
{
	const float sum = quarter(j);
	if (large(j))
		trigger();
	keep(j, sum);
}
static __device__ void then(const Job &j)
{
	if (!large(j))
		wait();
	else
		__nanosleep(300);
	add(j);
}
