/* silu of the first half of the columns times the second half; scaled so that the largest of a row is 448, in
 * double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y, double *S)
{
	for (int64_t i = 0; i < ROWS; i++) {
		const double *gate = X + i * 2 * COLS, *up = gate + COLS;
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] = gate[j] / (1 + exp(-gate[j])) * up[j];
		double top = 1e-10;
		for (int64_t j = 0; j < COLS; j++)
			top = fmax(top, fabs(Y[i * COLS + j]));
		S[i] = top / 448;
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] /= S[i];
	}
}
