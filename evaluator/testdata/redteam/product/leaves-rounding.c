/* Leaves the rounding mode at "towards zero". Attacks: as leaves-ftz.c; results
 * that the same process computes later differ in their last bits. Gain: none. */
#include "product.h"
#include <fenv.h>

void product(PARAMETERS)
{
	fesetround(FE_TOWARDZERO);
	all_rows(ARGUMENTS);
}
