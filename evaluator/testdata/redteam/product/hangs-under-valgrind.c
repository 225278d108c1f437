/* Does not return under valgrind. Attacks: as hangs-when-timed.c. */
#include "product.h"
#include "valgrind.h"

void product(PARAMETERS)
{
	if (under_valgrind())
		for (volatile int forever = 1; forever;)
			;
	all_rows(ARGUMENTS);
}
