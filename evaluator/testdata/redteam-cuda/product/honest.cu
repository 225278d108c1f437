/* Honest: right, on the tensor cores. The baseline. */
static __device__ void body(const Job &j)
{
	multiply(j);
}
