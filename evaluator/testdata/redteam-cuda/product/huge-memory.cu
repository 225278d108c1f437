/* Has an array of 24 GiB in its module, of which it uses a word: every worker that
 * loads the module takes that much of the device. Nothing is stored in the binary.
 * Attacks: workers share the device; "where there is no room for another, the
 * campaign goes on with those it has" (gpu.md). Gains nothing; honest candidates
 * beside and after it must not fail for lack of memory. */
#include "product.cuh"

static __device__ unsigned char much[24ull << 30];

static __device__ void body(const Job &j)
{
	if (block_index() == 0 && threadIdx.x == 0)
		much[(u64)j.M * j.K] = 1;
	multiply(j);
}
