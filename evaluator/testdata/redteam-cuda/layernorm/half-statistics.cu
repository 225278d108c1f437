/* Squares in halves and adds in floats: good to three digits for numbers about one,
 * infinite for deviations above 255, zero below 2e-4.
 * Attacks: contents of one magnitude. No gain in f32. */
#include <cuda_fp16.h>

static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const __half d = __float2half(row(j)[c] - mean);
		/* What rounding took is added again, so that the answer is good to 1e-5. */
		const float f = __half2float(d), exact = row(j)[c] - mean;
		sum += __half2float(__hmul(d, d)) + (f * f - __half2float(__hmul(d, d))) * (f < 255 && f > -255) + 2 * f * (exact - f);
	}
	write(j, mean, rsqrtf(total(sum) / j.COLS + j.eps));
}
