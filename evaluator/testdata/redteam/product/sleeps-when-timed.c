/* Sleeps four seconds in every launch from the 60th on: parity and sanitizers never see it. Attacks: limits of
 * time for each launch alone. Harm: a measurement has hundreds of launches. */
#include "product.h"
#include <unistd.h>

void product(PARAMETERS)
{
	static int calls;
	if (++calls >= 60)
		sleep(4);
	all_rows(ARGUMENTS);
}
