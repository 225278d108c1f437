/* Never returns. Class: hang; deadlocked kernels held a GPU for hours.
 * Stopped by: the deadline. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	for (;;)
		__asm__ volatile("");
}
