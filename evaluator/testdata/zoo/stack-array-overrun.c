/* Right, but reads one element past an array of its own on the stack. Class:
 * out of bounds, in memory that no guard of the harness surrounds. Stopped
 * by: the address sanitizer. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float tile[16];
	for (int j = 0; j < 16; j++)
		tile[j] = A[0];
	volatile int last = 16; /* hides the index from the compiler */
	__asm__ volatile("" : : "r"(tile) : "memory");
	volatile float beyond = tile[last];
	(void)beyond;
	multiply(PRODUCT_ARGUMENTS);
}
