/* A macro that grows to 40 million terms in one expression. Attacks: a compile
 * has limits on time and memory. The compiler needs several GiB. Bounded. */
#include "product.h"
#define A1(x) x + x + x + x + x + x + x + x
#define A2(x) A1(A1(x))
#define A3(x) A2(A2(x))

void product(PARAMETERS)
{
	static volatile int64_t one = 1;
	const int64_t n = A3(A3(one)) + 0;
	all_rows(ARGUMENTS);
	if (n < 0)
		C[0] = 0;
}
