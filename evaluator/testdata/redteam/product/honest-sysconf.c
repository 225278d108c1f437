/* Honest: chooses its block by the size of the first cache and asks how many
 * cores there are (which reads a file under /sys), as BLAS libraries and OpenMP
 * do in their first call. What reads-*.c should be told from. */
#include "product.h"
#include <sched.h>
#include <unistd.h>

void product(PARAMETERS)
{
	static int64_t step;
	if (!step) {
		cpu_set_t set;
		const long cache = sysconf(_SC_LEVEL1_DCACHE_SIZE), cores = sysconf(_SC_NPROCESSORS_ONLN);
		sched_getaffinity(0, sizeof set, &set);
		step = cache > 16384 && cores > 0 ? 16 : 8;
	}
	for (int64_t i = 0; i < M; i += step)
		some_rows(ARGUMENTS, i, i + step < M ? i + step : M);
}
