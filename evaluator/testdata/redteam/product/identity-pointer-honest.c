/* Honest: calls through a constant pointer to the right version. */
#include "identity.h"
static void (*const volatile version)(PARAMETERS) = version_right;
void product(PARAMETERS) { version(ARGUMENTS); }
