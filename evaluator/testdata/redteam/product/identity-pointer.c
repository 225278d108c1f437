/* The pointer is set by a relocation, whose addend lies outside of the section:
 * on x86-64 the section holds zeros in both. Attacks: as identity-alias.c. */
#include "identity.h"
static void (*const volatile version)(PARAMETERS) = version_wrong;
void product(PARAMETERS) { version(ARGUMENTS); }
