/* Makes a file in memory that can be filled, mapped and executed. Attacks:
 * "writes a file", and what is loaded is what was hashed. */
#include "attempt.h"
#include <sys/mman.h>

static void attempt(void)
{
	const int f = memfd_create("redteam", 0);
	SUCCEEDED(f < 0 ? -1 : ftruncate(f, 1 << 20));
}
