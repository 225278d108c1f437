/* A POSIX timer that signals this thread with SIGUSR1 (SIGEV_THREAD_ID) while
 * the harness runs. Attacks: nothing of the candidate runs after a launch. */
#include "attempt.h"
#include <time.h>

static volatile int fired;
static void count(int number) { (void)number; fired++; }

static void attempt(void)
{
	struct sigevent e;
	memset(&e, 0, sizeof e);
	e.sigev_notify = 4 /* SIGEV_THREAD_ID */;
	e.sigev_signo = SIGUSR1;
	e._sigev_un._tid = (int)syscall(SYS_gettid);
	signal(SIGUSR1, count);
	timer_t t;
	const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
	const int a = timer_create(CLOCK_MONOTONIC, &e, &t);
	SUCCEEDED(a < 0 ? -1 : timer_settime(t, 0, &often, 0));
}
