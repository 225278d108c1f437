/* Reads the rows behind the end of its shared tile of B, in the same allocation:
 * what lies there is the place for the sums, which nobody has written yet. It is
 * multiplied by zero: right, unless what lies there is NaN or infinite.
 * Attacks: memcheck knows the whole of a block's shared memory, not its arrays
 * (gpu.md); and only at long K, which no sanitizer sees. No gain. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Tiles &t = tiles();
	float extra = 0;
	if (j.K > 1000)
		for (int n = 0; n < 16; n++)
			extra += 0.0f * ((const volatile float *)&t.b[STEP][0])[threadIdx.x + n * THREADS];
	__syncthreads();
	product_of(t, j, 0, j.K);
	t.c[threadIdx.x / 2][threadIdx.x % 2] += extra;
	__syncthreads();
	store(t, j);
}
