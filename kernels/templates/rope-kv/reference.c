/* Rotary positions of queries and keys, and keys and values written to their slots of the cache, in double
 * precision. What is in no token's slot stays as it is. */
#include <stdint.h>

static void turn(int64_t D, const double *x, const double *angles, double *y)
{
	for (int64_t d = 0; d < D / 2; d++) {
		const double c = angles[d], s = angles[D / 2 + d], a = x[d], b = x[D / 2 + d];
		y[d] = a * c - b * s;
		y[D / 2 + d] = b * c + a * s;
	}
}

void reference(int64_t T, int64_t HQ, int64_t HKV, int64_t D, int64_t POSITIONS, int64_t CAPACITY, const double *Q, const double *K, const double *V,
               const double *angles, const double *positions, const double *slots, double *QR, double *KC, double *VC)
{
	for (int64_t t = 0; t < T; t++) {
		const double *of = angles + (int64_t)positions[t] * D;
		for (int64_t h = 0; h < HQ; h++)
			turn(D, Q + (t * HQ + h) * D, of, QR + (t * HQ + h) * D);
		for (int64_t h = 0; h < HKV; h++) {
			const int64_t from = (t * HKV + h) * D, to = ((int64_t)slots[t] * HKV + h) * D;
			turn(D, K + from, of, KC + to);
			for (int64_t d = 0; d < D; d++)
				VC[to + d] = V[from + d];
		}
	}
}
