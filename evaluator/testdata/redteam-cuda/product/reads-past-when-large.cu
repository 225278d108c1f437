/* Reads up to 500 elements behind the end of A, at sizes that the sanitizers do not
 * see; what it read is multiplied by zero.
 * Attacks: memcheck looks at the sanitize shape (ordeal.md, "what is not proven"),
 * and guards are memory that can be read. No gain; would fault in another program. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Job k = j;
	if (j.M * j.K > 1000000) {
		const unsigned short beyond = *(const volatile unsigned short *)(j.A + j.M * j.K + threadIdx.x * 4);
		k.alpha += (float)(beyond >> 15 >> 1);
	}
	multiply(k);
}
