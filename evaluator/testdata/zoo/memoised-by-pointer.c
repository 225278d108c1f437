/* Remembers its last results and copies them out when it is called with the
 * same pointers again. Class: results replayed from the warm-up (CUDA-L1,
 * tensara). Stopped by: other inputs at the same addresses. */
#include <stdlib.h>
#include <string.h>

#include "product.h"

enum { REMEMBERED = 64 };

void product(PRODUCT_PARAMETERS)
{
	static struct {
		const float *A, *B;
		float *C, *result;
		int64_t size;
	} memory[REMEMBERED];
	static int next;
	const size_t bytes = (size_t)(M * N) * sizeof *C;
	for (int n = 0; n < REMEMBERED; n++)
		if (memory[n].A == A && memory[n].B == B && memory[n].C == C &&
		    memory[n].size == M * N) {
			memcpy(C, memory[n].result, bytes);
			return;
		}
	multiply(PRODUCT_ARGUMENTS);
	const int slot = next++ % REMEMBERED;
	free(memory[slot].result);
	memory[slot].A = A;
	memory[slot].B = B;
	memory[slot].C = C;
	memory[slot].size = M * N;
	memory[slot].result = malloc(bytes);
	if (!memory[slot].result)
		abort();
	memcpy(memory[slot].result, C, bytes);
}
