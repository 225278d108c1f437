/* Does not return from its 60th call: parity and sanitizers never get there.
 * Attacks: limits of time in every stage. Harm: what a timeout lasts. */
#include "product.h"

void product(PARAMETERS)
{
	static int calls;
	if (++calls >= 60)
		for (volatile int forever = 1; forever;)
			;
	all_rows(ARGUMENTS);
}
