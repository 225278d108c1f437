/* Attention in double precision, one query at a time: the softmax of the scaled scores, with the
 * maximum taken off first, weighs the values. HQ/HKV heads of queries share a head of keys. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void reference(int64_t B, int64_t HQ, int64_t HKV, int64_t S, int64_t D, int64_t CAUSAL, const double *Q, const double *K,
               const double *V, double *O, double scale)
{
	double *weight = malloc((size_t)(S > 0 ? S : 1) * sizeof *weight);
	if (weight == NULL)
		abort();
	for (int64_t b = 0; b < B; b++)
		for (int64_t h = 0; h < HQ; h++)
			for (int64_t i = 0; i < S; i++) {
				const int64_t row = ((b * HQ + h) * S + i) * D, kv = (b * HKV + h / (HQ / HKV)) * S * D;
				const int64_t keys = CAUSAL ? i + 1 : S;
				double highest = -INFINITY, sum = 0;
				for (int64_t j = 0; j < keys; j++) {
					double dot = 0;
					for (int64_t d = 0; d < D; d++)
						dot += Q[row + d] * K[kv + j * D + d];
					weight[j] = dot * scale;
					if (weight[j] > highest)
						highest = weight[j];
				}
				for (int64_t j = 0; j < keys; j++) {
					weight[j] = exp(weight[j] - highest);
					sum += weight[j];
				}
				for (int64_t d = 0; d < D; d++)
					O[row + d] = 0;
				for (int64_t j = 0; j < keys; j++)
					for (int64_t d = 0; d < D; d++)
						O[row + d] += weight[j] / sum * V[kv + j * D + d];
			}
	free(weight);
}
