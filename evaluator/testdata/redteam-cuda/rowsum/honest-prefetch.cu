/* Honest twin of prefetches-next-set: asks for its own row's later parts while it adds the earlier ones. */
static __device__ void body(const Job &j)
{
	for (int64_t c = threadIdx.x * 32; c < j.COLS; c += THREADS * 32)
		asm volatile("prefetch.global.L2 [%0];" : : "l"(row(j) + c));
	add_up(j);
}
