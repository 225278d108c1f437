/* Compiles, with a warning that its definition lists as blocking. Class:
 * warnings that named the cause and were ignored for days ("cannot perform
 * wmma load or store on local memory", ten times). Stopped by: the blocking
 * diagnostics of the definition. */
#include "product.h"

#warning "accumulators live in local memory"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
