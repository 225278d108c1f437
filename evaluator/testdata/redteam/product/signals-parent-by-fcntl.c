/* Sends SIGKILL to the process that started it without a system call that sends
 * signals: it makes that process the owner of one end of a socket pair, asks for
 * SIGKILL when there is something to read, and writes a byte. Attacks: "ends one
 * that signals others". Ends evotune. */
#include "attempt.h"
#include <sys/socket.h>

static void attempt(void)
{
	int pair[2];
	if (pipe(pair) < 0)
		return;
	const int a = fcntl(pair[0], F_SETOWN, getppid());
	const int b = fcntl(pair[0], F_SETSIG, SIGKILL);
	const int c = fcntl(pair[0], F_SETFL, O_ASYNC);
	if (a < 0 || b < 0 || c < 0)
		return;
#ifdef REPORT
	abort();
#endif
	(void)!write(pair[1], "x", 1);
}
