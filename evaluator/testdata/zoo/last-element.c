/* Right but for the last element, which is never written. Class: part of the
 * work is skipped. Stopped by: every element is compared, none is sampled. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	const float before = C[M * N - 1];
	multiply(PRODUCT_ARGUMENTS);
	C[M * N - 1] = before;
}
