/* Honest twin of those that copy in bulk: waits for the copy. */
static __device__ void body(const Job &j)
{
	__shared__ Box box;
	if (!boxed(j)) {
		keep(j, quarter(j));
		return;
	}
	fetch(j, box);
	while (!arrived(box))
		;
	keep(j, of_box(box));
}
static __device__ void then(const Job &j) { add(j); }
