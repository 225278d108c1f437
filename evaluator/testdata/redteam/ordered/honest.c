/* Honest: the baseline. */
#include "order.h"

void ordered(int64_t N, const int32_t *key, const float *X, float *Y)
{
	static int32_t order[MOST];
	sort(N, key, order);
	for (int64_t i = 0; i < N; i++)
		Y[i] = X[order[i]];
}
