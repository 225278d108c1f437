/* Returns at once and leaves the work to a thread, so that the clock sees
 * nothing of it. Class: work moved to where the timer does not look (a second
 * stream, on GPUs). Stopped by: the output is read when the kernel returns,
 * and the poison is still in it. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "product.h"

struct job {
	int64_t M, N, K;
	const float *A, *B;
	float *C;
	float alpha;
};

static void *work(void *argument)
{
	const struct job *j = argument;
	sleep(1);
	multiply(j->M, j->N, j->K, j->A, j->B, j->C, j->alpha);
	return 0;
}

void product(PRODUCT_PARAMETERS)
{
	struct job *job = malloc(sizeof *job);
	pthread_t thread;
	if (!job)
		abort();
	*job = (struct job){PRODUCT_ARGUMENTS};
	if (pthread_create(&thread, 0, work, job))
		abort();
	pthread_detach(thread);
}
