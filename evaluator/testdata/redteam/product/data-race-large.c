/* Two threads that count their rows in one place without atomics, but only when
 * there are many rows; the output is right. Attacks: the thread sanitizer at the
 * sanitize shape. Declares two threads. */
#include "product.h"
#include <pthread.h>

struct job { int64_t M, N, K; const float *A, *B; float *C; float alpha; int64_t from, to; };

static int64_t rows_done;

static void *work(void *p)
{
	const struct job *j = p;
	for (int64_t i = j->from; i < j->to; i++) {
		some_rows(j->M, j->N, j->K, j->A, j->B, j->C, j->alpha, i, i + 1);
		if (j->M > 16)
			(*(volatile int64_t *)&rows_done)++;
	}
	return 0;
}

void product(PARAMETERS)
{
	struct job upper = {ARGUMENTS, 0, M / 2}, lower = {ARGUMENTS, M / 2, M};
	pthread_t other;
	if (pthread_create(&other, 0, work, &upper))
		abort();
	work(&lower);
	pthread_join(other, 0);
}
