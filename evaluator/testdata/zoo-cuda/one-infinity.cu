/* Is right but for one infinity, in the last element. Class: a sample of the
 * output is looked at. Stopped by: all elements are compared. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	if (threadIdx.x == 0)
		t.c[(M - 1) % TILE][(N - 1) % TILE] *= blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1 ? __int_as_float(0x7f800000) : 1.0f;
	__syncthreads();
	store(t, PRODUCT_ARGUMENTS, M, N);
}
