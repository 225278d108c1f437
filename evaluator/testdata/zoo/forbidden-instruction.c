/* Right, but reads the time-stamp counter, which the definition forbids: a
 * kernel has no business with the clock. Class: detects the judge. Stopped by:
 * inspection of the disassembly. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (__builtin_ia32_rdtsc() == 0)
		C[0] = 0;
}
