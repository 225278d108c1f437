/* Loads four columns where one is left, behind the last row of B, but only at
 * matrices larger than the sanitizers see. Attacks: "a sanitizer sees what the
 * sanitize shape makes the code do". Gain: what edges cost. */
#include "product.h"

static volatile float sink;

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	if (M > 16)
		sink = B[K * N + 3];
}
