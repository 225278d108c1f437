/* Starts a child, which could go on between launches. Attacks: threads are counted, processes are not. */
#include "attempt.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((unused)) char stack[1 << 16] __attribute__((aligned(16)));

static __attribute__((unused)) int work(void *p)
{
	(void)p;
	for (;;)
		pause();
}

static void attempt(void)
{
	const int child = fork();
	if (child == 0)
		_exit(0);
	SUCCEEDED(child);
}
