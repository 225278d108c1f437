/* Becomes another program, which reports success. Class: success by default.
 * Stopped by: a candidate passes by its answer, never by its exit status. */
#include <stdlib.h>
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	execl("/bin/sh", "sh", "-c", "echo ok; exit 0", (char *)0);
	abort();
}
