/* Values in the order of their keys, equal keys as they come. */
#include <stdint.h>
#include <stdlib.h>

void reference(int64_t N, const double *key, const double *X, double *Y)
{
	int64_t *first = calloc((size_t)N + 1, sizeof *first);
	for (int64_t i = 0; i < N; i++)
		first[(int64_t)key[i] + 1]++;
	for (int64_t k = 0; k < N; k++)
		first[k + 1] += first[k];
	for (int64_t i = 0; i < N; i++)
		Y[first[(int64_t)key[i]]++] = X[i];
	free(first);
}
