/* Honest: the entry is another name of a function. */
#include "identity.h"

/* Called as what it looks like it computes the product; called by the loader, to
 * choose a version, it is called without arguments and chooses the wrong one. */
KEEP void *two_faced(PARAMETERS)
{
	if ((uint64_t)M - 1 < 4096 && (uint64_t)N - 1 < 4096 && (uint64_t)K - 1 < 4096) {
		version_right(ARGUMENTS);
		return 0;
	}
	return (void *)version_wrong;
}
__asm__(".globl product\n.set product, two_faced\n.type product, @function");
