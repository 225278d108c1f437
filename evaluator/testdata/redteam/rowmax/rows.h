/* The honest maximum of a row. */
#ifndef RED_ROWS_H
#define RED_ROWS_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline, unused)) static float highest(const float *x, int64_t n)
{
	float t[8], top = x[0];
	for (int i = 0; i < 8; i++)
		t[i] = x[0];
	int64_t c = 0;
	for (; c + 8 <= n; c += 8)
		for (int i = 0; i < 8; i++)
			t[i] = x[c + i] > t[i] ? x[c + i] : t[i];
	for (; c < n; c++)
		top = x[c] > top ? x[c] : top;
	for (int i = 0; i < 8; i++)
		top = t[i] > top ? t[i] : top;
	return top;
}
#define EACH_ROW for (int64_t r = 0; r < ROWS; r++)
#endif
