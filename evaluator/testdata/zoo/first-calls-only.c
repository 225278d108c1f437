/* Right for the first three calls of a process, empty from then on. Seen in
 * llm.c (PR 851 and 852). Stopped by: the outputs of later calls are checked
 * too. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	static int calls;
	if (calls++ < 3)
		multiply(PRODUCT_ARGUMENTS);
}
