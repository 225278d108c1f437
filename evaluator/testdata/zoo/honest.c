/* Honest: right, and as fast as the compiler makes it. The baseline. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
