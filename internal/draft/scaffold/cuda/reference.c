/* y = alpha A x in double precision. */
#include <stdint.h>

void reference(int64_t M, int64_t N, const double *A, const double *x, double *y, double alpha)
{
	for (int64_t i = 0; i < M; i++) {
		double sum = 0;
		for (int64_t j = 0; j < N; j++)
			sum += A[i * N + j] * x[j];
		y[i] = alpha * sum;
	}
}
