/* Copies its part in bulk and waits 4 us instead of for the copy.
 * Attacks: racecheck does not follow bulk copies. Gains nothing. */
static __device__ void body(const Job &j)
{
	__shared__ Box box;
	if (!boxed(j)) {
		keep(j, quarter(j));
		return;
	}
	fetch(j, box);
	const u64 t = nanoseconds() + 4000;
	while (nanoseconds() < t)
		;
	keep(j, of_box(box));
}
static __device__ void then(const Job &j) { add(j); }
