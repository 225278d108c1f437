/* Honest: sum and sum of squares in one pass, shifted by the first element, in double precision by blocks. */
#include <math.h>
#include <stdint.h>

void norm(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS, first = x[0];
		float *y = Y + r * COLS;
		double sum = 0, squares = 0;
		for (int64_t from = 0; from < COLS; from += 1024) {
			const int64_t to = from + 1024 < COLS ? from + 1024 : COLS;
			float s = 0, q = 0;
			for (int64_t c = from; c < to; c++)
				s += x[c] - first, q += (x[c] - first) * (x[c] - first);
			sum += s, squares += q;
		}
		const double m = sum / COLS;
		const float mean = first + m, scale = 1 / sqrt(fmax(squares / COLS - m * m, 0) + 1e-5);
		for (int64_t c = 0; c < COLS; c++)
			y[c] = (x[c] - mean) * scale * W[c];
	}
}
