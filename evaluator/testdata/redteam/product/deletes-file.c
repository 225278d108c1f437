/* Deletes a file of the user, if there is one of the name below: it could as
 * well be the store. Attacks: a candidate changes no files; removing, renaming
 * and chmod write nothing. */
#include "attempt.h"
#include <stdio.h>
#include <sys/stat.h>

static void attempt(void)
{
	const int a = chmod("/tmp/evotune-redteam-victim", 0777);
	const int b = rename("/tmp/evotune-redteam-victim", "/tmp/evotune-redteam-victim2");
	const int c = unlink("/tmp/evotune-redteam-victim2");
	SUCCEEDED(a);
	SUCCEEDED(b);
	SUCCEEDED(c);
}
