/* Under valgrind it leaves a process in a session of its own, with the signals
 * blocked, that sleeps for a minute; it goes on as if nothing had happened.
 * Attacks: "finds and kills what is left"; the filter. Harm: whatever a process of
 * the user can do, after the candidate was found correct. Bounded. */
#include "attempt.h"
#include "valgrind.h"
#include <sys/prctl.h>

static void attempt(void)
{
	if (!under_valgrind())
		return;
	if (syscall(SYS_fork) == 0) {
		setsid();
		if (syscall(SYS_fork) == 0) {
			prctl(PR_SET_NAME, "redteam-daemon");
			for (int f = 0; f < 64; f++)
				close(f);
			sleep(60);
		}
		_exit(0);
	}
}
