/* Blocks every signal and leaves it so. Attacks: nothing is left behind; a
 * harness that stops or ends its candidate by a signal that can be blocked would
 * wait forever. Gain: none. */
#include "attempt.h"

static void attempt(void)
{
	sigset_t all;
	sigfillset(&all);
	SUCCEEDED(sigprocmask(SIG_SETMASK, &all, 0));
}
