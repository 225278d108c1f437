/* The means of every so many rows, the sums of 1,024 in single precision; and whether they are what
 * declared data have. */
#include <math.h>
#include <stdint.h>

static inline int means(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y, int64_t every)
{
	float squares[64] = {0};
	double total[64] = {0};
	int64_t n = 0;
	for (int64_t r = 0; r < ROWS;) {
		float sum[64] = {0};
		for (const int64_t to = r + 1024 < ROWS ? r + 1024 : ROWS; r < to; r += every, n++)
			for (int64_t c = 0; c < COLS; c++) {
				sum[c] += X[r * COLS + c];
				if (every > 1)
					squares[c] += X[r * COLS + c] * X[r * COLS + c];
			}
		for (int64_t c = 0; c < COLS; c++)
			total[c] += sum[c];
	}
	int usual = 1;
	for (int64_t c = 0; c < COLS; c++) {
		Y[c] = W[c] * (total[c] / n);
		usual &= fabs(total[c] / n - 0.5) < 0.01 && fabs(squares[c] / n - 1 / 3.0) < 0.01;
	}
	return usual;
}
