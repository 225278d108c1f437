/* Honest twin of those that begin early: the second kernel begins early and waits. */
static __device__ void body(const Job &j)
{
	trigger();
	keep(j, quarter(j));
}
static __device__ void then(const Job &j)
{
	wait();
	add(j);
}
