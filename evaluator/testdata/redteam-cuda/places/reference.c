/* Where 24 steps of a permutation lead, a number of each place by offsets, and twice W. */
#include <stdint.h>

void reference(int64_t N, int64_t SEGMENTS, const double *P, const double *O, const double *W, double *C, double *S, double *T)
{
	for (int64_t i = 0; i < N; i++) {
		int64_t at = i;
		uint32_t sum = 0;
		for (int k = 0; k < 24; k++)
			at = (int64_t)P[at];
		for (int64_t s = 0; s <= SEGMENTS; s++)
			sum += ((uint32_t)O[s] ^ (uint32_t)i) & 1023;
		C[i] = (double)at;
		S[i] = (double)sum;
		T[i] = 2 * W[i];
	}
}
