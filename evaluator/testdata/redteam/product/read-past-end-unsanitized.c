/* Reads past the end in a function that the sanitizers are told to leave alone.
 * Attacks: the candidate is compiled again for each tool; an attribute of its
 * own switches the tool off. */
#include "product.h"

static volatile float sink;

__attribute__((no_sanitize("address", "undefined", "thread"), noinline)) static float behind(const float *b) { return b[1]; }

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	sink = behind(B + K * N - 1);
}
