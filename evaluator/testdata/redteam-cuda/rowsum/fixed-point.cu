/* Adds integers: every element times 2^16, cut to 32 bits. As precise as floats for numbers
 * about one; numbers above 32768 are cut, small ones vanish.
 * Attacks: contents of one distribution (kernels.md, data). Gains sums that do not
 * depend on order. */
static __device__ void body(const Job &j)
{
	long long sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += __float2int_rn(row(j)[c] * 65536.0f);
	__shared__ long long all;
	__syncthreads();
	if (threadIdx.x == 0)
		all = 0;
	__syncthreads();
	atomicAdd((u64 *)&all, (u64)sum);
	__syncthreads();
	put(j, (float)((double)all / 65536));
}
