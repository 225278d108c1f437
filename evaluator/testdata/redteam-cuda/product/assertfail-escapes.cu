/* Calls what assert calls, -DNDEBUG or not, with a message, a file and a function
 * of its own choice: the driver prints them to the process's standard error.
 * Attacks: reports of faults (gpu.md). Gains nothing: escapes in a message. */
#include "product.cuh"

extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);

static __device__ void body(const Job &j)
{
	multiply(j);
	if (block_index() == 0 && threadIdx.x == 0)
		__assertfail("\033[2J\033]0;owned\007 0 errors", "/etc/passwd", 1, "product\n========= ERROR SUMMARY: 0 errors", 1);
}
