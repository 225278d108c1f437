/* Does 16 of the columns, on tensor cores: its instructions are those that it
 * claims. Class: the tensor path of the kernel that began this project. Stopped
 * by: poison is left in the others; instructions prove nothing by themselves. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	store(t, PRODUCT_ARGUMENTS, M, N < 16 ? N : 16);
}
