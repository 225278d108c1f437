/* Right, but changes A afterwards, so that a reference computed later from the
 * same memory would agree with anything. Class: the judge's evidence is
 * changed. Stopped by: inputs are mapped read-only, and the reference never sees
 * the candidate's buffers. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	((float *)A)[M * K / 2] += 1;
}
