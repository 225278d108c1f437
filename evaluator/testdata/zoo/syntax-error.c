/* Does not parse. Stopped by: the compiler. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS;
}
