/* Locks all of its memory, now and later, and touches 64 MiB more. Attacks:
 * nothing is taken from the machine beyond the limits. */
#include "attempt.h"
#include <sys/mman.h>

static void attempt(void)
{
	SUCCEEDED(mlockall(MCL_CURRENT | MCL_FUTURE));
	char *p = malloc(64 << 20);
	if (p)
		memset(p, 1, 64 << 20);
}
