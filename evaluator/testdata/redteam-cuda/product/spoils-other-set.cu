/* Keeps the addresses of the inputs of the set before, and in one launch of eight
 * changes one element there: the set's next answer is right for what is then in the
 * buffer, and wrong for what was put there.
 * Attacks: "the inputs must be unchanged" (gpu.md): those of all sets, not only of
 * the one that was launched. Gains nothing; a reference computed later agrees. */
#include "product.cuh"

static __device__ __half *before;
static __device__ unsigned launches;

static __device__ void body(const Job &j)
{
	multiply(j);
	if (!large(j) || block_index() != 0 || threadIdx.x != 0)
		return;
	if (launches++ % 8 == 7 && before && before != j.A)
		before[j.K + 3] = __half(100.0f);
	before = (__half *)j.A;
}
