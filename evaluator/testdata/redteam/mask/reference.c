#include <stdint.h>
void reference(int64_t N, int64_t V, const double *words, double *seen)
{
	for (int64_t v = 0; v < V; v++)
		seen[v] = 0;
	for (int64_t i = 0; i < N; i++)
		seen[(int64_t)words[i]] = 1;
}
