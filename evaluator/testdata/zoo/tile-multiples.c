/* Right only where M is a multiple of its tile. Class: fitted to the one shape
 * that is timed (robust-kbench: 3.13x fell to 1.49x). Stopped by: parity also
 * sees shapes that are not tuned for, odd ones among them. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	rows(PRODUCT_ARGUMENTS, 0, M / 8 * 8);
}
