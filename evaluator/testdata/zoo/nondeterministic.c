/* Right within the tolerance, and never the same twice. Class: a race that
 * shows in the last bits. Stopped by: each input is run twice and the answers
 * must agree. */
#include <stdlib.h>
#include <sys/random.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	unsigned char noise[64];
	if (getrandom(noise, sizeof noise, 0) != (ssize_t)sizeof noise)
		abort();
	multiply(PRODUCT_ARGUMENTS);
	for (int64_t i = 0; i < M * N; i++)
		C[i] *= 1 + 4e-8f * (float)noise[i % 64];
}
