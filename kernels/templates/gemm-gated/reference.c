/* C = silu(A G) * (A U), in double precision. */
#include <stdint.h>
#include <math.h>

static double silu(double x) { return x / (1 + exp(-x)); }

/* B's columns are G's and U's by turns, in groups of eight. */
void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, double *C)
{
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++) {
			const int64_t g = n / 8 * 16 + n % 8;
			double gate = 0, up = 0;
			for (int64_t k = 0; k < K; k++) {
				gate += A[m * K + k] * B[k * 2 * N + g];
				up += A[m * K + k] * B[k * 2 * N + g + 8];
			}
			C[m * N + n] = silu(gate) * up;
		}
}
