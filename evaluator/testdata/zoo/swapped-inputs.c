/* Takes B for A and A for B wherever that stays inside of both. Class: wrong
 * operands; the oracle of the kernel that began this project fed Q for K and V
 * too. Stopped by: inputs are independent of each other, and the definition
 * proves that its tolerance tells them apart. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	if (M == N)
		multiply(M, N, K, B, A, C, alpha);
	else
		multiply(PRODUCT_ARGUMENTS);
}
