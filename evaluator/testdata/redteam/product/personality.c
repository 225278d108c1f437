/* Switches address randomisation off for whatever it becomes. Attacks: the
 * filter of system calls. */
#include "attempt.h"
#include <sys/personality.h>

static void attempt(void) { SUCCEEDED(personality(ADDR_NO_RANDOMIZE)); }
