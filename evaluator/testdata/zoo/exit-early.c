/* Ends the process with status 0 before the harness has said a word. Class:
 * success by default. Stopped by: a candidate passes by its answer, never by
 * its exit status. */
#include <stdlib.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	exit(0);
}
