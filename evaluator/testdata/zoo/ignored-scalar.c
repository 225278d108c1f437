/* Takes alpha for 1. Class: wrong operands. Stopped by: scalars have values
 * that matter. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	(void)alpha;
	multiply(M, N, K, A, B, C, 1);
}
