/* Opens /proc/PPID/mem, /proc/PPID/maps and /proc/PPID/fd: the same with files. */
#include "attempt.h"
#include <stdio.h>

static void attempt(void)
{
	char name[64];
	static const char *const what[] = {"mem", "maps", "environ", "cmdline"};
	for (int n = 0; n < 4; n++) {
		snprintf(name, sizeof name, "/proc/%d/%s", (int)getppid(), what[n]);
		SUCCEEDED(open(name, O_RDONLY));
	}
}
