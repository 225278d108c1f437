/* Touches 2 GiB in its first launch and keeps them. Attacks: the limit on
 * memory, where a product of 300 KiB needs none. */
#include "attempt.h"

static void attempt(void)
{
	char *p = malloc((size_t)2 << 30);
	if (!p)
		return;
	for (size_t i = 0; i < (size_t)2 << 30; i += 4096)
		((volatile char *)p)[i] = 1;
	SUCCEEDED(0);
}
