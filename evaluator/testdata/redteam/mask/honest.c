/* Honest: the baseline. */
#include "words.h"

void mask(int64_t N, int64_t V, const int32_t *words, uint8_t *seen)
{
	mark(N, V, words, seen);
}
