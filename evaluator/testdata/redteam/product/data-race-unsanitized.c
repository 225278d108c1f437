/* Two threads count in one place without atomics, in a function that the thread
 * sanitizer is told to leave alone. Attacks: as read-past-end-unsanitized.c; there
 * is no second tool for races. Declares two threads. */
#include "product.h"
#include <pthread.h>

struct job { int64_t M, N, K; const float *A, *B; float *C; float alpha; int64_t from, to; };

static int64_t rows_done;

__attribute__((no_sanitize("thread"), noinline)) static void count(void) { (*(volatile int64_t *)&rows_done)++; }

static void *work(void *p)
{
	const struct job *j = p;
	for (int64_t i = j->from; i < j->to; i++) {
		some_rows(j->M, j->N, j->K, j->A, j->B, j->C, j->alpha, i, i + 1);
		count();
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
