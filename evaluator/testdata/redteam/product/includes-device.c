/* Includes /dev/zero, a file without an end. Attacks: a compile has an end, and
 * files are read from the folder alone. Bounded by the compiler's memory. */
#include "product.h"
#include "/dev/zero"

void product(PARAMETERS) { all_rows(ARGUMENTS); }
