/* Honest with two threads, each on rows of its own: what data-race.c should
 * have been. Shows that the thread sanitizer passes what is right. */
// evotune: threads = 2
#include <pthread.h>
#include <stdlib.h>

#include "product.h"

struct half {
	int64_t M, N, K;
	const float *A, *B;
	float *C;
	float alpha;
	int64_t from, to;
};

static void *work(void *argument)
{
	const struct half *h = argument;
	rows(h->M, h->N, h->K, h->A, h->B, h->C, h->alpha, h->from, h->to);
	return 0;
}

void product(PRODUCT_PARAMETERS)
{
	struct half upper = {PRODUCT_ARGUMENTS, 0, M / 2};
	struct half lower = {PRODUCT_ARGUMENTS, M / 2, M};
	pthread_t thread;
	if (pthread_create(&thread, 0, work, &upper))
		abort();
	work(&lower);
	pthread_join(thread, 0);
}
