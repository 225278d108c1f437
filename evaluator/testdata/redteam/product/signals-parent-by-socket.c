/* As signals-parent-by-fcntl.c, with ioctl(FIOSETOWN) and a socket instead. */
#include "attempt.h"
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <asm/sockios.h>

static void attempt(void)
{
	int pair[2], on = 1, owner = getppid();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return;
	const int a = ioctl(pair[0], FIOSETOWN, &owner);
	const int b = fcntl(pair[0], F_SETSIG, SIGKILL);
	const int c = ioctl(pair[0], FIOASYNC, &on);
	if (a < 0 || b < 0 || c < 0)
		return;
#ifdef REPORT
	abort();
#endif
	(void)!write(pair[1], "x", 1);
}
