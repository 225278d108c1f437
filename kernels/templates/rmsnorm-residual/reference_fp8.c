/* Each row of X + R, and that over the root of its mean square, times the weights; scaled so that the largest of a row is 448, in
 * double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, const double *R, const double *W, double *H, double *Y, double *S, double eps)
{
	for (int64_t i = 0; i < ROWS; i++) {
		double squares = 0;
		for (int64_t j = 0; j < COLS; j++) {
			H[i * COLS + j] = X[i * COLS + j] + R[i * COLS + j];
			squares += H[i * COLS + j] * H[i * COLS + j];
		}
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] = H[i * COLS + j] / sqrt(squares / (double)COLS + eps) * W[j];
		double top = 1e-10;
		for (int64_t j = 0; j < COLS; j++)
			top = fmax(top, fabs(Y[i * COLS + j]));
		S[i] = top / 448;
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] /= S[i];
	}
}
