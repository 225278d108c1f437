/* Computes half of the rows, in half of the time. Class: part of the work is
 * skipped; the tensor-core path of the kernel that began this project did 16
 * of its columns. Stopped by: poison is left in the other half. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	rows(PRODUCT_ARGUMENTS, 0, M / 2);
}
