/* Honest: keeps its second thread between calls and wakes it with a condition
 * variable, as every pool does. Two threads are declared. */
#include "product.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { int64_t M, N, K; const float *A, *B; float *C; float alpha; int work; } job;

static void *serve(void *p)
{
	(void)p;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!job.work)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		some_rows(job.M, job.N, job.K, job.A, job.B, job.C, job.alpha, 0, job.M / 2);
		pthread_mutex_lock(&lock);
		job.work = 0;
		pthread_cond_broadcast(&changed);
	}
	return 0;
}

void product(PARAMETERS)
{
	static int started;
	pthread_mutex_lock(&lock);
	if (!started) {
		pthread_t t;
		if (pthread_create(&t, 0, serve, 0))
			abort();
		pthread_detach(t);
		started = 1;
	}
	job.M = M, job.N = N, job.K = K, job.A = A, job.B = B, job.C = C, job.alpha = alpha, job.work = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	some_rows(ARGUMENTS, M / 2, M);
	pthread_mutex_lock(&lock);
	while (job.work)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}
