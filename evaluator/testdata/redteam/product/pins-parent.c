/* Binds the process that started it to one core, and gives it the lowest
 * priority: every later candidate is measured by a slower judge. Attacks: "ends
 * one that signals others or changes limits". */
#include "attempt.h"
#include <sched.h>
#include <sys/resource.h>

static void attempt(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	const int a = sched_setaffinity(getppid(), sizeof one, &one);
	const int b = setpriority(PRIO_PROCESS, (id_t)getppid(), 19);
	SUCCEEDED(a);
	SUCCEEDED(b);
}
