/* Two threads take rows from a counter that is not atomic. When both take the
 * same row they write the same values, so the output is right every time.
 * Class: data race. Stopped by: the thread sanitizer. */
// evotune: threads = 2
#include <pthread.h>
#include <stdlib.h>

#include "product.h"

struct team {
	int64_t M, N, K;
	const float *A, *B;
	float *C;
	float alpha;
	volatile int64_t next; /* volatile is not atomic */
};

static void *work(void *argument)
{
	struct team *t = argument;
	for (;;) {
		const int64_t i = t->next++;
		if (i >= t->M)
			return 0;
		rows(t->M, t->N, t->K, t->A, t->B, t->C, t->alpha, i, i + 1);
	}
}

void product(PRODUCT_PARAMETERS)
{
	struct team team = {PRODUCT_ARGUMENTS, 0};
	pthread_t thread;
	if (pthread_create(&thread, 0, work, &team))
		abort();
	work(&team);
	pthread_join(thread, 0);
	/* A row may be lost between a load and a store of the counter; not to be
	 * wrong by chance, the caller goes over all of them again. */
	multiply(PRODUCT_ARGUMENTS);
}
