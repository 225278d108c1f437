/* Honest but slow: does all of the work four times. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	for (int pass = 0; pass < 4; pass++) {
		multiply(PRODUCT_ARGUMENTS);
		__asm__ volatile("" ::: "memory"); /* every pass has to happen */
	}
}
