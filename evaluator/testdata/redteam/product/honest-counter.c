/* Honest: two threads share an atomic counter of rows. What data-race-large.c
 * should have been. */
#include "product.h"
#include <pthread.h>

struct job { int64_t M, N, K; const float *A, *B; float *C; float alpha; int64_t *next; };

static void *take(void *p)
{
	const struct job *j = p;
	for (;;) {
		const int64_t i = __atomic_fetch_add(j->next, 1, __ATOMIC_RELAXED);
		if (i >= j->M)
			return 0;
		some_rows(j->M, j->N, j->K, j->A, j->B, j->C, j->alpha, i, i + 1);
	}
}

void product(PARAMETERS)
{
	int64_t next = 0;
	struct job j = {ARGUMENTS, &next};
	pthread_t other;
	if (pthread_create(&other, 0, take, &j))
		abort();
	take(&j);
	pthread_join(other, 0);
}
