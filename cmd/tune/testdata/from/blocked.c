/* C = alpha A B, in blocks that stay in the caches. */
#include <stddef.h>
#include <string.h>

#ifndef BI
#define BI 32 // tune: 16, 32, 64
#endif
#define BK 64 // tune: 32, 64, 128
#define STRIPS 1 /* tune: 1, 2, 4 */

#define MIN(a, b) ((a) < (b) ? (a) : (b))

static void strip(int n, float factor, const float *restrict b, float *restrict c)
{
	for (int j = 0; j < n; j++)
		c[j] += factor * b[j];
}

/* Columns j0 to j1 of a block of rows. */
static void block(int i0, int i1, int k0, int k1, int j0, int j1, int n, int k, const float *a, const float *b, float alpha, float *c)
{
	for (int i = i0; i < i1; i++)
		for (int p = k0; p < k1; p++)
			strip(j1 - j0, alpha * a[(size_t)i * k + p], b + (size_t)p * n + j0, c + (size_t)i * n + j0);
}

void matmul(const float *a, const float *b, float alpha, float *c, int m, int n, int k)
{
	const int width = (n + STRIPS - 1) / STRIPS;
	memset(c, 0, sizeof *c * (size_t)m * n);
	for (int i = 0; i < m; i += BI)
		for (int j = 0; j < n; j += width)
			for (int p = 0; p < k; p += BK)
				block(i, MIN(i + BI, m), p, MIN(p + BK, k), j, MIN(j + width, n), n, k, a, b, alpha, c);
}
