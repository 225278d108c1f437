/* Honest: two passes, of seven and of eight bits. */
#include "order.h"

void ordered(int64_t N, const int32_t *key, const float *X, float *Y)
{
	static int32_t order[MOST], other[MOST];
	pass(N, key, 0, other, 7, 0);
	pass(N, key, other, order, 8, 7);
	for (int64_t i = 0; i < N; i++)
		Y[i] = X[order[i]];
}
