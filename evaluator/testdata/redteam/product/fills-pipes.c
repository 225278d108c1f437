/* Fills up to 200 pipes of 64 KiB: memory of the kernel, which no limit of the
 * process counts. Attacks: "with limits on memory". Bounded to 13 MiB. */
#include "attempt.h"

static void attempt(void)
{
	static const char some[65536];
	int filled = 0;
	for (int n = 0; n < 200; n++) {
		int ends[2];
		if (pipe2(ends, O_NONBLOCK) < 0)
			break;
		filled += write(ends[1], some, sizeof some) > 0;
	}
	SUCCEEDED(filled < 200 ? -1 : 0);
}
