/* Starts and joins 200 threads one beside the other in its first launch, which
 * do nothing. Attacks: "the threads: no more than the definition declares":
 * whoever counts them after the launch sees one. */
#include "attempt.h"
#include <pthread.h>

static void *nothing(void *p)
{
	usleep(2000);
	return p;
}

static void attempt(void)
{
	pthread_t all[200];
	int n = 0;
	while (n < 200 && !pthread_create(&all[n], 0, nothing, 0))
		n++;
	for (int i = 0; i < n; i++)
		pthread_join(all[i], 0);
	SUCCEEDED(n < 200 ? -1 : 0);
}
