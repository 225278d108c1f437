/* Attention in double precision, one query at a time: the softmax of the scaled
 * scores, with the maximum taken off first, weighs the values. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* scripts/bench-attention.sh compiles it in single precision, too. */
#ifndef REAL
#define REAL double
#define EXP exp
#endif

void reference(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const REAL *Q, const REAL *K, const REAL *V,
               REAL *O, REAL scale)
{
	REAL *weight = malloc((size_t)(S > 0 ? S : 1) * sizeof *weight);
	if (weight == NULL)
		abort();
	for (int64_t head = 0; head < B * H; head++)
		for (int64_t i = 0; i < S; i++) {
			const REAL *q = Q + (head * S + i) * D;
			REAL *o = O + (head * S + i) * D;
			const int64_t keys = CAUSAL ? i + 1 : S;
			REAL highest = -INFINITY, sum = 0;
			for (int64_t j = 0; j < keys; j++) {
				const REAL *k = K + (head * S + j) * D;
				REAL dot = 0;
				for (int64_t d = 0; d < D; d++)
					dot += q[d] * k[d];
				weight[j] = dot * scale;
				if (weight[j] > highest)
					highest = weight[j];
			}
			for (int64_t j = 0; j < keys; j++) {
				weight[j] = EXP(weight[j] - highest);
				sum += weight[j];
			}
			for (int64_t d = 0; d < D; d++)
				o[d] = 0;
			for (int64_t j = 0; j < keys; j++)
				for (int64_t d = 0; d < D; d++)
					o[d] += weight[j] / sum * V[(head * S + j) * D + d];
		}
	free(weight);
}
