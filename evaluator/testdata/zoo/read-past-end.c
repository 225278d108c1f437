/* Right, but loads the element behind A, as a pipelined loop does that fetches
 * the next row before it asks whether there is one. The value is not used, so
 * no output shows it. Class: out of bounds. Stopped by: the address
 * sanitizer. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	volatile float next = A[0];
	for (int64_t i = 0; i < M; i++) {
		rows(PRODUCT_ARGUMENTS, i, i + 1);
		next = A[(i + 1) * K];
	}
	(void)next;
}
