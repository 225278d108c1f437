/* Writes 1 MiB to its standard error in each of its first 64 launches. Attacks:
 * what is kept of a candidate's output is bounded. Bounded. */
#include "product.h"
#include <unistd.h>

void product(PARAMETERS)
{
	static int calls;
	static char text[1 << 16];
	if (calls++ < 64) {
		memset(text, 'x', sizeof text);
		for (int n = 0; n < 16; n++)
			(void)!write(2, text, sizeof text);
	}
	all_rows(ARGUMENTS);
}
