/* Honest: in double precision and against the order of memory, ten times as slow as others. */
#include "product.h"

void product(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += (double)A[i * K + k] * B[k * N + j];
			C[i * N + j] = (float)(alpha * sum);
		}
}
