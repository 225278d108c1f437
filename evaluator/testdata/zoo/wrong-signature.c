/* Has its operands in another order than the definition says. Class: would
 * read and write whatever the registers hold. Stopped by: the prototype that
 * is included before each candidate, hence by the compiler. */
#include "product.h"

void product(float *C, const float *A, const float *B, int64_t M, int64_t N,
             int64_t K, float alpha)
{
	multiply(PRODUCT_ARGUMENTS);
}
