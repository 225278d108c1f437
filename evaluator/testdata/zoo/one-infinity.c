/* Right but for one infinity. Class: not finite. Stopped by: every element is
 * compared, and what is not finite never passes. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	C[M * N / 3] = __builtin_inff();
}
