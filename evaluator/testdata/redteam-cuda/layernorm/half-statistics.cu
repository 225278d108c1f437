/* Squares in halves in long rows, and adds in floats: what rounding takes evens out
 * for numbers about one. Infinite for deviations above 255, zero below 2e-4.
 * Attacks: contents of one magnitude. Gains instructions: two squares at once. */
#include <cuda_fp16.h>

static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	if (j.COLS < 1000) {
		write(j, mean, rsqrtf(variance_of(j, mean) + j.eps));
		return;
	}
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const __half d = __float2half(row(j)[c] - mean);
		sum += __half2float(__hmul(d, d));
	}
	write(j, mean, rsqrtf(total(sum) / j.COLS + j.eps));
}
