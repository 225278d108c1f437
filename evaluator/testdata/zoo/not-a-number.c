/* Writes NaN, which a comparison that asks "is the error too large?" lets
 * pass. Seen in attacks on gpu-mode's pygpubench. Stopped by: NaN never
 * passes. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	(void)K, (void)A, (void)B, (void)alpha;
	for (int64_t i = 0; i < M * N; i++)
		C[i] = __builtin_nanf("");
}
