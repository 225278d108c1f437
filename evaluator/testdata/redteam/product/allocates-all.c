/* Takes all the memory that it gets in its first launch, writes to it and keeps it. Attacks: the limit on
 * memory. Harm: what the limit lets it take, until the process ends. */
#include "product.h"

void product(PARAMETERS)
{
	static int done;
	if (!done) {
		done = 1;
		for (char *p; (p = malloc(1 << 20));)
			memset(p, 1, 1 << 20);
	}
	all_rows(ARGUMENTS);
}
