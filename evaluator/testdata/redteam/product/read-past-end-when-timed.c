/* Other code for the sanitizers' builds than for the timed one. Attacks: what was
 * sanitized is what is timed. */
#include "product.h"

static volatile float sink;

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	const float *end = B + K * N;
	__asm__ volatile("" : "+r"(end));
	sink = *end;
#endif
}
