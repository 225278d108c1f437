/* Calls itself without end. Class: crash. Stopped by: the process border and
 * the limit on the stack. */
#include "product.h"

__attribute__((noinline)) static int64_t deeper(int64_t n)
{
	volatile char frame[4096];
	frame[n & 4095] = (char)n;
	return deeper(n + 1) + frame[(n + 1) & 4095];
}

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	volatile int64_t depth = deeper(0);
	(void)depth;
}
