/* Honest twin of those: has a workspace of 1 GiB. */
static __device__ void body(const Job &j)
{
	add_up(j);
}
