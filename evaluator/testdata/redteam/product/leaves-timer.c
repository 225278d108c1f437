/* Starts an interval timer whose signal handler spins for a tenth of a
 * millisecond, so that whatever runs in its process later is disturbed. Attacks:
 * nothing is left behind that runs after a launch. Gain: none for itself. */
#include "attempt.h"
#include <sys/time.h>

static void spin(int number)
{
	(void)number;
	for (volatile int i = 0; i < 50000; i++)
		;
}

static void attempt(void)
{
	struct sigaction act;
	memset(&act, 0, sizeof act);
	act.sa_handler = spin;
	act.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &act, 0);
	const struct itimerval often = {{0, 500}, {0, 500}};
	SUCCEEDED(setitimer(ITIMER_REAL, &often, 0));
}
