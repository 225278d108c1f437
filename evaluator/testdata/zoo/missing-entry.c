/* Does not define the entry point. Stopped by: the linker. */
#include "product.h"

void produkt(PRODUCT_PARAMETERS);
void produkt(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
