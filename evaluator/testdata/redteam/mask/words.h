#include <stdint.h>
#include <string.h>

static inline void mark(int64_t n, int64_t v, const int32_t *words, uint8_t *seen)
{
	memset(seen, 0, (size_t)v);
	for (int64_t i = 0; i < n; i++)
		seen[words[i]] = 1;
}
