#include <math.h>
void reference(int64_t ROWS, int64_t COLS, const double *X, const double *W, double *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		double m = 0, v = 0;
		for (int64_t c = 0; c < COLS; c++)
			m += X[r * COLS + c] / COLS;
		for (int64_t c = 0; c < COLS; c++)
			v += (X[r * COLS + c] - m) * (X[r * COLS + c] - m) / COLS;
		for (int64_t c = 0; c < COLS; c++)
			Y[r * COLS + c] = (X[r * COLS + c] - m) / sqrt(v + 1e-5) * W[c];
	}
}
