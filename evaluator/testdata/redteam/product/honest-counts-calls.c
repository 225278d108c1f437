/* Honest: keeps a counter and the greatest size it has met, as a library with
 * statistics does, and computes all of every launch. */
#include "product.h"

void product(PARAMETERS)
{
	static uint64_t calls;
	static int64_t greatest;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	if (M * N > greatest)
		greatest = M * N;
	all_rows(ARGUMENTS);
}
