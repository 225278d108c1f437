/* Honest twin of pins-first-sets: says of what it reads that it is used once, by a
 * policy that gives it up first. */
static __device__ void body(const Job &j)
{
	u64 policy;
	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		float x;
		asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(row(j) + c), "l"(policy));
		sum += x;
	}
	put(j, total(sum));
}
