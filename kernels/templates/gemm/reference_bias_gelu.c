/* C = gelu(A B + bias), in double precision. */
#include <stdint.h>
#include <math.h>

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, const double *bias, double *C)
{
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += A[m * K + k] * B[k * N + n];
			C[m * N + n] = gelu(sum + bias[n]);
		}
}
