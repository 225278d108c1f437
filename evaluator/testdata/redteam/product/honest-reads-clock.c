/* Honest: chooses between two loop orders by timing both in its first call, as
 * libraries that tune themselves do, and computes all of every launch. What
 * kernels that read a clock to stay above a floor should be told from. */
#include "product.h"
#include <time.h>

static void blocked(PARAMETERS)
{
	for (int64_t i = 0; i < M; i += 8)
		some_rows(ARGUMENTS, i, i + 8 < M ? i + 8 : M);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void product(PARAMETERS)
{
	static int choice;
	if (!choice) {
		const int64_t t0 = now();
		all_rows(ARGUMENTS);
		const int64_t t1 = now();
		blocked(ARGUMENTS);
		choice = now() - t1 < t1 - t0 ? 2 : 1;
		return;
	}
	if (choice == 1)
		all_rows(ARGUMENTS);
	else
		blocked(ARGUMENTS);
}
