/* Rotary positions of queries and keys, and keys and values written to their slots of the cache, in double
 * precision. A block takes a token; what is in no token's slot stays as it is. */
extern "C" __global__ void reference(int64_t T, int64_t HQ, int64_t HKV, int64_t D, int64_t POSITIONS, int64_t CAPACITY, const double *Q, const double *K, const double *V,
                                     const double *angles, const double *positions, const double *slots, double *QR, double *KC, double *VC)
{
	const int64_t t = blockIdx.x, slot = (int64_t)slots[t];
	const double *of = angles + (int64_t)positions[t] * D;
	for (int64_t i = threadIdx.x; i < (HQ + HKV) * (D / 2); i += blockDim.x) {
		const int64_t h = i / (D / 2), d = i % (D / 2);
		const double *x = h < HQ ? Q + (t * HQ + h) * D : K + (t * HKV + h - HQ) * D;
		double *y = h < HQ ? QR + (t * HQ + h) * D : KC + (slot * HKV + h - HQ) * D;
		y[d] = x[d] * of[d] - x[D / 2 + d] * of[D / 2 + d];
		y[D / 2 + d] = x[D / 2 + d] * of[d] + x[d] * of[D / 2 + d];
	}
	for (int64_t i = threadIdx.x; i < HKV * D; i += blockDim.x)
		VC[slot * HKV * D + i] = V[t * HKV * D + i];
}
