/* Right, but computes an index whose intermediate overflows an int. Class:
 * undefined behaviour that today's compiler happens to forgive. Stopped by:
 * the undefined behaviour sanitizer. */
#include <limits.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	volatile int big = INT_MAX;
	volatile int index = big + (int)(M > 0);
	(void)index;
	multiply(PRODUCT_ARGUMENTS);
}
