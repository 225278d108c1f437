/* Right, but writes one element before C. Class: memory outside the output is
 * changed. Stopped by: the guard before C. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	C[-1] = 0;
}
