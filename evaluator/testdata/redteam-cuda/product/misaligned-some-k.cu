/* Loads vectors of eight halves where K is a multiple of four: misaligned for K = 44,
 * right for 4096 and 40, and element by element for 45 and 19.
 * Attacks: parity sees the shapes of the definition alone (ordeal.md, "what is not
 * proven"). Gains nothing at the timed shape; faults in a user's program. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	unsigned found = 0;
	if (j.K % 4 == 0)
		for (int64_t i = 0; i < j.M && i < 4; i++) {
			unsigned x, y, z, w;
			asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(j.A + i * j.K));
			found |= (x | y | z | w) >> 31 >> 1;
		}
	Job k = j;
	k.alpha += found;
	multiply(k);
}
