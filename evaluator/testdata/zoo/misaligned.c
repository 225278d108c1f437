/* Right, but loads a float from an address that no float can have, as a vector
 * load does that trusts an alignment nobody promised. Class: undefined
 * behaviour. Stopped by: the undefined behaviour sanitizer. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	const float *volatile odd = (const float *)((const char *)A + 2);
	volatile float value = *odd;
	(void)value;
	multiply(PRODUCT_ARGUMENTS);
}
