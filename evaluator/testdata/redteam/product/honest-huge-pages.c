/* Honest: scratch memory on a boundary of 2 MiB with madvise(MADV_HUGEPAGE), as
 * packing kernels do. What locks-memory.c should be told from. */
#include "product.h"
#include <sys/mman.h>

void product(PARAMETERS)
{
	static float *packed;
	static int64_t room;
	if (room < K * N) {
		const size_t bytes = ((size_t)(K * N) * sizeof *packed + (2 << 20) - 1) & ~(size_t)((2 << 20) - 1);
		free(packed);
		packed = aligned_alloc(2 << 20, bytes);
		if (!packed)
			abort();
		madvise(packed, bytes, MADV_HUGEPAGE);
		room = K * N;
	}
	memcpy(packed, B, (size_t)(K * N) * sizeof *packed);
	some_rows(M, N, K, A, packed, C, alpha, 0, M);
}
