/* Data of 1 GiB that is not zero: an object of that size on the disk, in the
 * cache, and in every later copy. Attacks: limits of the build. Bounded. */
#include "product.h"
__asm__(".pushsection .data\n.fill 134217728, 8, 1\n.popsection");

void product(PARAMETERS) { all_rows(ARGUMENTS); }
