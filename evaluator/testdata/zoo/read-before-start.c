/* Right, but loads the element before B and throws it away. Class: out of
 * bounds. Stopped by: the address sanitizer. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	volatile float previous = B[-1];
	(void)previous;
	multiply(PRODUCT_ARGUMENTS);
}
