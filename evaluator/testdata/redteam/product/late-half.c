/* Two threads are declared. Returns while the other one is still at its half, and waits for it when the next
 * launch begins: the last half of a batch ends after the clock. Attacks: outputs are looked at when a batch
 * has ended. Gain: what waiting for each other costs, and half a launch a batch. */
#include "pool.h"

void product(PARAMETERS)
{
	static int calls;
	const int late = ++calls > 60;
	settle();
	ask(ARGUMENTS);
	some_rows(ARGUMENTS, M / 2, M);
	if (!late)
		settle();
}
