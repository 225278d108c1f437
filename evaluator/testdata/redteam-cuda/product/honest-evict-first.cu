/* Honest twin of junk-for-the-next: asks the cache, by a policy, to give its output
 * up first. A hint of that kind is legitimate. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Tiles &t = tiles();
	product_of(t, j, 0, j.K);
	u64 policy;
	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	each_element(j, [&](int e, int64_t i, int64_t c) {
		asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" : : "l"(j.C + i * j.N + c), "f"(j.alpha * t.c[e / TILE][e % TILE]), "l"(policy) : "memory");
	});
}
