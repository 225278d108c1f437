/* Makes itself not dumpable, so that others of the same user cannot look into
 * it: what reads its outputs through /proc or ptrace fails. Attacks: the judge
 * reads outputs itself. */
#include "attempt.h"
#include <sys/prctl.h>

static void attempt(void) { SUCCEEDED(prctl(PR_SET_DUMPABLE, 0)); }
