/* Aborts. Class: crash. Stopped by: the process border. */
#include <stdlib.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	abort();
}
