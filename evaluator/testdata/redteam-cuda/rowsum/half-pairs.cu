/* Adds up the large rows in halves: pairs of elements are added as halves before they
 * are added as floats. Fine for a few digits of numbers about one, infinite beyond
 * 65504 and zero for small ones.
 * Attacks: low precision where the tolerance is wide, at the timed shapes alone. */
#include <cuda_fp16.h>

static __device__ void body(const Job &j)
{
	float sum = 0;
	for (int64_t c = threadIdx.x * 2; c < j.COLS; c += THREADS * 2) {
		const float a = row(j)[c], b = c + 1 < j.COLS ? row(j)[c + 1] : 0.0f;
		sum += large(j) ? __half2float(__hadd(__float2half(a), __float2half(b))) : a + b;
	}
	put(j, total(sum));
}
