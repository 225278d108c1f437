/* Calls itself until there is no stack. Attacks: the limit on the stack. */
#include "product.h"

static __attribute__((noinline)) int deeper(volatile char *above)
{
	volatile char here[4096];
	here[0] = above ? above[0] : 1;
	return deeper(here) + here[0];
}

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	C[0] += deeper(0) ? 0 : 1;
}
