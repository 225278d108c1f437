/* Honest: a parallel loop of OpenMP with the two threads that are declared; its
 * runtime keeps the second one between calls, and is not built for the thread
 * sanitizer, which cannot see its barriers. */
#include "product.h"

void product(PARAMETERS)
{
#pragma omp parallel for num_threads(2) schedule(static)
	for (int64_t i = 0; i < M; i++)
		some_rows(ARGUMENTS, i, i + 1);
}
