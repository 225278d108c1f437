/* Sets up an io_uring, through which files are opened and sent without a system
 * call that a filter could see. Attacks: the filter of system calls. */
#include "attempt.h"

static void attempt(void)
{
	char parameters[120] = {0};
	SUCCEEDED(syscall(SYS_io_uring_setup, 4, parameters));
}
