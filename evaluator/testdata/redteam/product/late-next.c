/* Two threads are declared. The other one does its half beside the next launch's: it is asked when this one's own
 * half is done. Attacks: outputs are looked at when a batch has ended. Gain: what waiting for each other costs, and
 * half a launch a batch. */
#include "pool.h"

void product(PARAMETERS)
{
	static int calls;
	some_rows(ARGUMENTS, M / 2, M);
	settle();
	ask(ARGUMENTS);
	if (++calls <= 60)
		settle();
}
