/* Adds into accumulators in local memory that nobody set to zero. It is right
 * while that memory is still fresh; the next launch finds the sums of this one.
 * Class: reads of what nobody wrote. Stopped by: parity. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	float sums[TILE * TILE / THREADS];
	asm volatile("" : : "l"(sums) : "memory"); /* forbids to guess zeros */
	for (int e = 0; e < TILE * TILE / THREADS; e++) {
		const int at = e * THREADS + threadIdx.x;
		sums[(e + (int)K) % 16] += t.c[at / TILE][at % TILE];
	}
	for (int e = 0; e < TILE * TILE / THREADS; e++) {
		const int at = e * THREADS + threadIdx.x;
		t.c[at / TILE][at % TILE] = sums[(e + (int)K) % 16];
	}
	store(t, PRODUCT_ARGUMENTS, M, N);
}
