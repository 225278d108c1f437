/* Right for the first 64 calls, empty from then on: long enough to get
 * through parity and the warm-up. Class: detects the warm-up (gpu-mode's
 * pygpubench, llm.c). Stopped by: outputs are poisoned and checked again after
 * the timing. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	static int calls;
	if (calls++ < 64)
		multiply(PRODUCT_ARGUMENTS);
}
