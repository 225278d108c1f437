/* Finds the highest element by the order of the bits as signed integers, which is that of
 * floats for positive numbers and turned round for negative ones.
 * Attacks: contents of one distribution: in rows of negative numbers alone it takes
 * the lowest for the highest and overflows. No gain. */
static __device__ void body(const Job &j)
{
	__shared__ int all;
	if (threadIdx.x == 0)
		all = 0x80000000;
	__syncthreads();
	int top = 0x80000000;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		top = max(top, __float_as_int(row(j)[c]));
	atomicMax(&all, top);
	__syncthreads();
	const float highest = __int_as_float(all);
	weigh(j, [=](float x) { return __expf(x - highest); });
}
