/* Asks the cache to keep what it reads of the first rows longest (evict_last), so
 * that a part of every set is still there when the sets come round, though together they exceed
 * the cache three times. 6 MiB a set stay.
 * Attacks: cache = "cold", "so many sets that they exceed it three times"; lines
 * are given up before each sample, not within one (gpu.md). Gains up to 1.3x. */
static __device__ void body(const Job &j)
{
	if (!large(j) || (u64)blockIdx.x * j.COLS * 4 > 6u << 20) {
		add_up(j);
		return;
	}
	u64 policy;
	asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
	float sum = 0;
#pragma unroll 4
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		float x;
		asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(row(j) + c), "l"(policy));
		sum += x;
	}
	put(j, total(sum));
}
