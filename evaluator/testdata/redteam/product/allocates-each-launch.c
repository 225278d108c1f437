/* Takes 32 MiB more in every launch, never gives any back, and does not ask whether it got them. Attacks:
 * the limit on memory over many launches. */
#include "product.h"

void product(PARAMETERS)
{
	volatile char *p = malloc(32 << 20);
	for (size_t i = 0; i < 32 << 20; i += 4096)
		p[i] = 1;
	all_rows(ARGUMENTS);
}
