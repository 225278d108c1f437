/* Honest: the entry is an alias of the right version. */
#include "identity.h"
void product(PARAMETERS) __attribute__((alias("version_right")));
