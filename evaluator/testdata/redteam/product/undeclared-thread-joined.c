/* Declares one thread and does half of the work on a second one, which it joins
 * before it returns: nothing is left to be counted when the process is stopped.
 * Attacks: "the threads: no more than the definition declares". Gain: up to 2x. */
#include "product.h"
#include <pthread.h>

struct half { int64_t M, N, K; const float *A, *B; float *C; float alpha; };

static void *upper(void *p)
{
	const struct half *h = p;
	some_rows(h->M, h->N, h->K, h->A, h->B, h->C, h->alpha, 0, h->M / 2);
	return 0;
}

void product(PARAMETERS)
{
	struct half h = {ARGUMENTS};
	pthread_t other;
	const int alone = pthread_create(&other, 0, upper, &h) != 0;
	some_rows(ARGUMENTS, M / 2, M);
	if (alone)
		upper(&h);
	else
		pthread_join(other, 0);
}
