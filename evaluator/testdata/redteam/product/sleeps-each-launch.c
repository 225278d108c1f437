/* Sleeps a second and a half in every launch. Attacks: limits of time for each launch alone. Harm: a launch
 * has seconds, and there are hundreds of launches. */
#include "product.h"
#include <unistd.h>

void product(PARAMETERS)
{
	usleep(1500000);
	all_rows(ARGUMENTS);
}
