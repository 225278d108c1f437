#include <math.h>

/* o = silu(g) * u, where g and u are the halves of each row of x. */
void silumul(const float *x, float *o, int T, int D)
{
	for (long t = 0; t < T; t++) {
		const float *g = x + t * 2 * D, *u = g + D;
		long d = 0;
		for (; d + BLOCK <= D; d += BLOCK)
			for (long i = d; i < d + BLOCK; i++)
				o[t * D + i] = g[i] / (1 + expf(-g[i])) * u[i];
		for (; d < D; d++)
			o[t * D + d] = g[d] / (1 + expf(-g[d])) * u[d];
	}
}
