/* The mean of the squares less the square of the mean, in single precision: all
 * digits are lost for data with an offset of some thousand. Attacks: data around
 * zero. Gain: a pass of three. */
#include "rows.h"

void layernorm(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	EACH_ROW {
		const float *x = X + r * COLS;
		float s[8] = {0}, q[8] = {0};
		int64_t c = 0;
		for (; c + 8 <= COLS; c += 8)
			{
			for (int i = 0; i < 8; i++)
				s[i] += x[c + i];
			for (int i = 0; i < 8; i++)
				q[i] += x[c + i] * x[c + i];
			}
		for (; c < COLS; c++)
			s[0] += x[c], q[0] += x[c] * x[c];
		for (int i = 1; i < 8; i++)
			s[0] += s[i], q[0] += q[i];
		const float mean = s[0] / (float)COLS, var = q[0] / (float)COLS - mean * mean;
		write_row(x, Y + r * COLS, COLS, mean, 1 / sqrtf((var > 0 ? var : 0) + 1e-5f));
	}
}
