/* Honest: a copy of B in a workspace of 64 MiB, which it keeps. */
#include "product.h"

void product(PARAMETERS)
{
	static float *space;
	enum { ROOM = 64 << 20 };
	if (!space && !(space = malloc(ROOM)))
		abort();
	if ((size_t)(K * N) * sizeof *B > ROOM) {
		all_rows(ARGUMENTS);
		return;
	}
	memcpy(space, B, (size_t)(K * N) * sizeof *B);
	some_rows(M, N, K, A, space, C, alpha, 0, M);
}
