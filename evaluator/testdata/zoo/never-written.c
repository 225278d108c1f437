/* Writes nothing at all. Class: the output left over from the reference or
 * from an earlier run is taken for this one's (Sakana AI's CUDA Engineer,
 * KernelBench); an oversized launch that is silently refused looks the same
 * (Wafer: "104x faster"). Stopped by: outputs are poisoned before each run. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	(void)M, (void)N, (void)K, (void)A, (void)B, (void)C, (void)alpha;
}
