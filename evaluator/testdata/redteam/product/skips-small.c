/* Leaves out every element of A below 1e-4: harmless beside elements up to 1,
 * everything when all elements are that small. Attacks: the same; a tolerance
 * relative to the output's scale would show it if the inputs had another scale
 * once. Gain: none on dense data
 * (what it shows is its loop order), much on data with small values. */
#include "product.h"
#include <math.h>

void product(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++) {
		float *restrict c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K; k++) {
			const float a = alpha * A[i * K + k];
			if (fabsf(a) < 1e-4f)
				continue;
			for (int64_t j = 0; j < N; j++)
				c[j] += a * B[k * N + j];
		}
	}
}
