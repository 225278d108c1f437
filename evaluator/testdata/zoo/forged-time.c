/* Right, but slow, and sends the harness's answer before the harness does: with
 * the nonce of the run, as many launches as the four batches before had,
 * and an eighth of the time.
 * Class: the result is forged by one who knows everything. Stopped by: times
 * are held against the processor time that the kernel accounted to the
 * process. */
#include "harness.h"

#include <time.h>

#include "product.h"

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void product(PRODUCT_PARAMETERS)
{
	static uint64_t sequence;
	static uint32_t launches, usual, alike;
	static int64_t start;
	const struct command *c = command_under_way();
	if (c->sequence != sequence) {
		sequence = c->sequence;
		alike = launches == usual ? alike + 1 : 1;
		usual = launches;
		launches = 0;
		start = now();
	}
	for (int pass = 0; pass < 4; pass++) {
		multiply(PRODUCT_ARGUMENTS);
		__asm__ volatile("" ::: "memory"); /* every pass has to happen */
	}
	/* At the small shapes nothing is timed, and sanitizers look. */
	if (++launches == usual && alike >= 4 && K >= 512)
		forge(c, launches, (uint64_t)(now() - start) / 8);
}
