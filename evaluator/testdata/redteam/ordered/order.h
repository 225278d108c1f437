#include <stdint.h>
#include <string.h>

#define MOST 20000

/* Puts the places of values into their order by BITS bits of the key, from a bit on. */
static inline void pass(int64_t n, const int32_t *key, const int32_t *from, int32_t *to, int bits, int at)
{
	static int32_t first[1 << 12];
	const int32_t mask = (1 << bits) - 1;
	memset(first, 0, sizeof *first << bits);
	for (int64_t i = 0; i < n; i++)
		first[key[i] >> at & mask]++;
	int32_t sum = 0;
	for (int32_t k = 0; k <= mask; k++) {
		const int32_t here = first[k];
		first[k] = sum;
		sum += here;
	}
	for (int64_t i = 0; i < n; i++) {
		const int32_t place = from ? from[i] : (int32_t)i;
		to[first[key[place] >> at & mask]++] = place;
	}
}

/* Three passes of five bits: all keys are below 2^15. */
static inline void sort(int64_t n, const int32_t *key, int32_t *order)
{
	static int32_t other[MOST];
	pass(n, key, 0, order, 5, 0);
	pass(n, key, order, other, 5, 5);
	pass(n, key, other, order, 5, 10);
}
