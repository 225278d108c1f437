/* Writes zeros, which pass a loose absolute tolerance. Seen in KernelBench
 * (#165). Stopped by: the error is relative to the output's scale. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	(void)K, (void)A, (void)B, (void)alpha;
	for (int64_t i = 0; i < M * N; i++)
		C[i] = 0;
}
