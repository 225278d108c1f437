/* Right, but writes one element past the end of C: the classic tile that runs
 * over the edge. Class: memory outside the output is changed. Stopped by: the
 * guard behind C, compared after each run. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	C[M * N] = 0;
}
