/* Asks for inotify on /tmp and for perf_event_open on itself: to see files of
 * the judge come and go, and to count. Attacks: the filter of system calls. */
#include "attempt.h"
#include <sys/inotify.h>

static void attempt(void)
{
	const int i = inotify_init1(0);
	SUCCEEDED(i < 0 ? -1 : inotify_add_watch(i, "/tmp", IN_CREATE));
	char attr[112] = {0};
	((uint32_t *)attr)[1] = sizeof attr;
	SUCCEEDED(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
}
