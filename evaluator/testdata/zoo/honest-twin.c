/* Honest, and of the same text as honest.c but for this comment: both compile
 * to one binary, which is evaluated once. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
