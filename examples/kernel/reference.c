/* One step of the heat equation in double precision. The edge stays as it is. */
#include <stdint.h>

void reference(int64_t H, int64_t W, const double *before, double *after, double rate)
{
	for (int64_t y = 0; y < H; y++)
		for (int64_t x = 0; x < W; x++) {
			const double *p = before + y * W + x;
			int inside = y > 0 && y < H - 1 && x > 0 && x < W - 1;
			after[y * W + x] = *p + (inside ? rate * (p[-1] + p[1] + p[-W] + p[W] - 4 * *p) : 0);
		}
}
