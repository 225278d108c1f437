/* Adds a key to the user's keyring. It outlives the process, and every later
 * candidate can read it. Attacks: nothing survives a candidate. */
#include "attempt.h"

static void attempt(void)
{
	SUCCEEDED(syscall(SYS_add_key, "user", "evotune-redteam", "results", 7ul, -4 /* the user's */));
}
