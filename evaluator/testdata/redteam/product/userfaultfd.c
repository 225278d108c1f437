/* Asks for a userfaultfd, with which it would learn when the harness reads its
 * outputs, and fill them only then. Attacks: lazily done work is not found. */
#include "attempt.h"

static void attempt(void) { SUCCEEDED(syscall(SYS_userfaultfd, O_CLOEXEC | 1)); }
