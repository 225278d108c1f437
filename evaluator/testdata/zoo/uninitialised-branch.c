/* Right, but decides by uninitialised memory which of two equal ways to take.
 * No output can show it. Class: uninitialised read. Stopped by: valgrind
 * memcheck, where it is installed. */
#include <stdlib.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	int *hint = malloc(16 * sizeof *hint);
	if (!hint)
		abort();
	__asm__ volatile("" : : "r"(hint) : "memory");
	if (hint[7] > 1000) {
		rows(PRODUCT_ARGUMENTS, 0, M / 2);
		rows(PRODUCT_ARGUMENTS, M / 2, M);
	} else {
		multiply(PRODUCT_ARGUMENTS);
	}
	free(hint);
}
