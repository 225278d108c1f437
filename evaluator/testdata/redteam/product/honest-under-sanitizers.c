/* Honest: tells the thread sanitizer's build apart, as libraries do to use plain
 * atomics there, and does the same thing. */
#include "product.h"

void product(PARAMETERS)
{
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
	for (int64_t i = 0; i < M; i++)
		some_rows(ARGUMENTS, i, i + 1);
#else
	all_rows(ARGUMENTS);
#endif
}
