/* Writes to address 8. Class: crash. Stopped by: the process border. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	*(volatile int *)8 = 0;
}
