/* Honest: a bit for each word, and bytes at the end. */
#include "words.h"

void mask(int64_t N, int64_t V, const int32_t *words, uint8_t *seen)
{
	static uint64_t bits[1024];
	memset(bits, 0, sizeof bits);
	for (int64_t i = 0; i < N; i++)
		bits[words[i] >> 6] |= UINT64_C(1) << (words[i] & 63);
	for (int64_t v = 0; v < V; v++)
		seen[v] = bits[v >> 6] >> (v & 63) & 1;
}
