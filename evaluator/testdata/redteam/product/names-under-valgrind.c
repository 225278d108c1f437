/* Under valgrind it makes an empty file whose name holds what it has found out, the
 * number of the process that started it: a message to the next candidate. Bounded
 * to one name. Attacks: as marks-under-valgrind.c. */
#include "attempt.h"
#include "valgrind.h"
#include <stdio.h>

static void attempt(void)
{
	char name[64];
	if (!under_valgrind())
		return;
	snprintf(name, sizeof name, "/tmp/evotune-redteam-parent-is-%d", (int)getppid());
	const int f = open(name, O_CREAT | O_WRONLY, 0600);
	if (f >= 0)
		close(f);
}
