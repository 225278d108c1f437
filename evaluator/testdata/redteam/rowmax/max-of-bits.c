/* Compares the bits as integers, which orders positive numbers, and negative ones
 * the wrong way round. Attacks: as max-from-zero.c. Gain: where integer maxima
 * are cheaper than those of floats. */
#include "rows.h"

void rowmax(int64_t ROWS, int64_t COLS, const float *X, float *top)
{
	EACH_ROW {
		int32_t best = INT32_MIN;
		for (int64_t c = 0; c < COLS; c++) {
			int32_t bits;
			memcpy(&bits, X + r * COLS + c, sizeof bits);
			best = bits > best ? bits : best;
		}
		memcpy(top + r, &best, sizeof best);
	}
}
