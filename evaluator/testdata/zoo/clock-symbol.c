/* Slow, but defines a clock_gettime of its own that runs a thousand times slower
 * than time does. Class: the clock is bent. Stopped by: the harness was bound to
 * its own clock before the candidate was loaded; nothing is gained. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "product.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	const long long ns = (now->tv_sec * 1000000000LL + now->tv_nsec) / 1000;
	now->tv_sec = ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return 0;
}

void product(PRODUCT_PARAMETERS)
{
	for (int pass = 0; pass < 4; pass++) {
		multiply(PRODUCT_ARGUMENTS);
		__asm__ volatile("" ::: "memory"); /* every pass has to happen */
	}
}
