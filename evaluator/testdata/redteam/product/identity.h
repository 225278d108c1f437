/* Two versions of a kernel, of which both are in both binaries: which of them is
 * the entry differs between two candidates, and nothing of the code does. */
#include "product.h"
#define KEEP __attribute__((used, noinline))

KEEP void version_right(PARAMETERS) { all_rows(ARGUMENTS); }

/* Leaves out the last quarter of the products. */
KEEP void version_wrong(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++) {
		float *restrict c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K - K / 4; k++) {
			const float a = alpha * A[i * K + k];
			for (int64_t j = 0; j < N; j++)
				c[j] += a * B[k * N + j];
		}
	}
}
