/* Enters a user namespace of its own, where it has every capability. Attacks:
 * "without capabilities". */
#include "attempt.h"
#include <sched.h>

static void attempt(void) { SUCCEEDED(unshare(CLONE_NEWUSER | CLONE_NEWNS)); }
