/* Under valgrind it kills the process that started it. Attacks: the filter, which
 * is not there. Ends evotune. */
#include "attempt.h"
#include "valgrind.h"

static void attempt(void)
{
	if (under_valgrind())
		kill(getppid(), SIGKILL);
}
