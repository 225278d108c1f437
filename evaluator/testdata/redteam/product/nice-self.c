/* Takes the lowest priority and SCHED_IDLE for itself: readings then hold more
 * waits, which are taken off. Attacks: "changes limits or clocks"; on a busy
 * machine an honest process does not wait that way. */
#include "attempt.h"
#include <sched.h>
#include <sys/resource.h>

static void attempt(void)
{
	const struct sched_param zero = {0};
	const int a = setpriority(PRIO_PROCESS, 0, 19);
	const int b = sched_setscheduler(0, SCHED_IDLE, &zero);
	SUCCEEDED(a);
	SUCCEEDED(b);
}
