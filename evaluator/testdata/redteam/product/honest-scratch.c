/* Honest: packs B into scratch memory that is kept between calls; what was in it
 * is overwritten in each call and never read. What memoised-*.c should be told
 * from. */
#include "product.h"

void product(PARAMETERS)
{
	static float *packed;
	static int64_t room;
	if (room < K * N) {
		free(packed);
		room = K * N;
		packed = malloc((size_t)room * sizeof *packed);
		if (!packed)
			abort();
	}
	for (int64_t k = 0; k < K * N; k++)
		packed[k] = alpha * B[k];
	some_rows(M, N, K, A, packed, C, 1.0f, 0, M);
}
