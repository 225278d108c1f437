/* Right, but closes every descriptor, so that the harness has no way to
 * answer. Class: crash. Stopped by: no answer is no success. */
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
}
