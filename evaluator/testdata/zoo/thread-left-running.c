/* Right, but leaves a thread spinning for ever, in the way of whoever is timed
 * next. Class: harm to the neighbour. Stopped by: after a run the process may
 * have no more threads than its definition declares. */
#include <pthread.h>
#include <stdlib.h>

#include "product.h"

static void *spin(void *argument)
{
	volatile int *turns = argument;
	for (;;)
		++*turns;
	return 0;
}

void product(PRODUCT_PARAMETERS)
{
	static int count, started;
	pthread_t thread;
	if (!started) {
		started = 1;
		if (pthread_create(&thread, 0, spin, &count))
			abort();
		pthread_detach(thread);
	}
	multiply(PRODUCT_ARGUMENTS);
}
