/* Asks for a descriptor of the process that started it with pidfd_getfd, such as
 * the store's. Attacks: a process of its own. */
#include "attempt.h"

static void attempt(void)
{
	const long p = syscall(SYS_pidfd_open, getppid(), 0);
	SUCCEEDED(p < 0 ? -1 : syscall(SYS_pidfd_getfd, p, 3, 0));
}
