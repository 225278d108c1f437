/* Honest: a resolver chooses the version when the object is loaded, as glibc
 * does for memcpy. */
#include "identity.h"
__attribute__((used)) static void *choose(void) { return (void *)version_right; }
void product(PARAMETERS) __attribute__((ifunc("choose")));
