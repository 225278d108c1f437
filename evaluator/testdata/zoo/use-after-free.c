/* Right, but reads its scratch memory after giving it back. Class: lifetime.
 * Stopped by: the address sanitizer. */
#include <stdlib.h>
#include <string.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float *row = malloc((size_t)K * sizeof *row);
	if (!row)
		abort();
	memcpy(row, A, (size_t)K * sizeof *row);
	multiply(PRODUCT_ARGUMENTS);
	float *volatile gone = row; /* hides from the compiler that it is freed */
	free(row);
	volatile float late = gone[K / 2];
	(void)late;
}
