/* Works only when the output looks poisoned, that is when somebody is going to
 * check it, and trusts what lies there otherwise. Class: detects the judge.
 * Stopped by: outputs are poisoned before every launch that is timed, so that
 * it gains nothing. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	if (C[0] != C[0] || C[M * N - 1] != C[M * N - 1])
		multiply(PRODUCT_ARGUMENTS);
}
