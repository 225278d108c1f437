/* Switches denormals off in MXCSR and never on again. Attacks: nothing is left
 * behind; whoever calls the kernel computes with other arithmetic afterwards,
 * the harness first. Gain: large on data with denormals, for itself and for what
 * is measured after it in the same process. */
#include "product.h"
#include <xmmintrin.h>

void product(PARAMETERS)
{
	_mm_setcsr(_mm_getcsr() | 0x8040);
	all_rows(ARGUMENTS);
}
