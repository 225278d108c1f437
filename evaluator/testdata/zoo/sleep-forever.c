/* Never returns, and uses no processor time either, so that a limit on that
 * would never be reached. Class: hang. Stopped by: the deadline, which is wall
 * time. */
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	for (;;)
		pause();
}
