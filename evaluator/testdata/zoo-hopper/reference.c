/* C = A B' in double precision, the plain way. */
#include <stdint.h>

void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, double *C)
{
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += A[i * K + k] * B[j * K + k];
			C[i * N + j] = sum;
		}
}
