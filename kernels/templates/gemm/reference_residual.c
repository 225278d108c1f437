/* C = A B + R, in double precision. */
#include <stdint.h>

void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, const double *R, double *C)
{
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += A[m * K + k] * B[k * N + n];
			C[m * N + n] = sum + R[m * N + n];
		}
}
