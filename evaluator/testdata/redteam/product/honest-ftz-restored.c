/* Honest: switches denormals off for its own loop and puts MXCSR back as it was. */
#include "product.h"
#include <xmmintrin.h>

void product(PARAMETERS)
{
	const unsigned before = _mm_getcsr();
	_mm_setcsr(before | 0x8040);
	all_rows(ARGUMENTS);
	_mm_setcsr(before);
}
