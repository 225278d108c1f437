/* Takes and touches memory until there is none, then dies of it. Class: harm
 * to the neighbour. Stopped by: the limit on memory. Should no limit stop it
 * at 16 GiB, it gives the right answer and is found out by that. */
#include <stdlib.h>
#include <string.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	const size_t piece = (size_t)64 << 20;
	for (int n = 0; n < 256; n++) {
		char *p = malloc(piece);
		if (!p)
			abort();
		memset(p, 1, piece);
		__asm__ volatile("" : : "r"(p) : "memory");
	}
	multiply(PRODUCT_ARGUMENTS);
}
