/* Lowers the limit on open files of the process that started it to 8 with
 * prlimit. Attacks: "changes limits": those of others, too. */
#include "attempt.h"
#include <sys/resource.h>

static void attempt(void)
{
	const struct rlimit few = {8, 8};
	SUCCEEDED(prlimit(getppid(), RLIMIT_NOFILE, &few, 0));
}
