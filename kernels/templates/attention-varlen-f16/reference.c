/* Attention of packed sequences, in double precision, one query at a time: the softmax of the scaled
 * scores, with the maximum taken off first, weighs the values. HQ/HKV heads of queries share a head of keys. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void reference(int64_t B, int64_t HQ, int64_t HKV, int64_t S, int64_t D, int64_t CAUSAL, const double *Q, const double *K,
               const double *V, const double *starts, double *O, double scale)
{
	double *weight = malloc((size_t)(S > 0 ? S : 1) * sizeof *weight);
	if (weight == NULL)
		abort();
	for (int64_t b = 0; b < B; b++) {
		const int64_t first = (int64_t)starts[b], end = (int64_t)starts[b + 1];
		for (int64_t i = first; i < end; i++)
			for (int64_t h = 0; h < HQ; h++) {
				const double *q = Q + (i * HQ + h) * D;
				double *o = O + (i * HQ + h) * D, highest = -INFINITY, sum = 0;
				const int64_t head = h / (HQ / HKV), keys = (CAUSAL ? i + 1 : end) - first;
				for (int64_t j = 0; j < keys; j++) {
					const double *k = K + ((first + j) * HKV + head) * D;
					double dot = 0;
					for (int64_t d = 0; d < D; d++)
						dot += q[d] * k[d];
					weight[j] = dot * scale;
					if (weight[j] > highest)
						highest = weight[j];
				}
				for (int64_t j = 0; j < keys; j++) {
					weight[j] = exp(weight[j] - highest);
					sum += weight[j];
				}
				for (int64_t d = 0; d < D; d++)
					o[d] = 0;
				for (int64_t j = 0; j < keys; j++) {
					const double *v = V + ((first + j) * HKV + head) * D;
					for (int64_t d = 0; d < D; d++)
						o[d] += weight[j] / sum * v[d];
				}
			}
	}
	free(weight);
}
