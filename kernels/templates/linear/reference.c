/* Y = X W' in double precision. */
#include <stdint.h>

void reference(int64_t M, int64_t N, int64_t K, const double *X, const double *W, double *Y)
{
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += X[m * K + k] * W[n * K + k];
			Y[m * N + n] = sum;
		}
}
