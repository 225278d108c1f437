/* Honest: 48 KiB of sums on the stack, which the definition allows. */
#include "product.h"

void product(PARAMETERS)
{
	float sums[12288];
	for (int64_t i = 0; i < M; i++)
		for (int64_t from = 0; from < N; from += 12288) {
			const int64_t n = N - from < 12288 ? N - from : 12288;
			for (int64_t j = 0; j < n; j++)
				sums[j] = 0;
			for (int64_t k = 0; k < K; k++) {
				const float a = alpha * A[i * K + k];
				for (int64_t j = 0; j < n; j++)
					sums[j] += a * B[k * N + from + j];
			}
			memcpy(C + i * N + from, sums, (size_t)n * sizeof *sums);
		}
}
