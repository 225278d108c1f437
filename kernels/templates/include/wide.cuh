/* What kernels over long rows share: accesses of 16 bytes, and what the threads of a block and the
 * blocks of a cluster know of a row. The template defines THREADS, CLUSTER, LOAD_HINT, STORE_HINT, and BF16
 * where elements are bfloat16 instead of half. */
#define DEVICE static __device__ __forceinline__ __attribute__((unused)) // who includes this needs some of it
#define WARPS (THREADS / 32)
#define VECTOR 8 /* elements of an access */
#define EVERYONE 0xffffffffu
#define LOG2E 1.44269504f
#define NEVER (-1e30f) /* below every element, and its weight is nothing */

/* Eight elements as they travel. */
struct vec {
	unsigned w[4];
};

#if LOAD_HINT == 2
#define LOAD "ld.global.nc.L1::no_allocate.L2::256B"
#elif LOAD_HINT == 1
#define LOAD "ld.global.cs"
#else
#define LOAD "ld.global.nc"
#endif
#if STORE_HINT == 1
#define STORE "st.global.cs"
#else
#define STORE "st.global"
#endif

/* For what is read once. Accesses are volatile, or the compiler makes some of them before it has asked
 * whether there is anything to read. */
DEVICE vec load(const void *p)
{
	vec v;
	asm volatile(LOAD ".v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	return v;
}

/* For what many rows have in common. */
DEVICE vec load_again(const void *p)
{
	vec v;
	asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	return v;
}

DEVICE void store(void *p, vec v)
{
	asm volatile(STORE ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}

#ifdef BF16
typedef __nv_bfloat16 element;
DEVICE float2 floats(unsigned w) { return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u)); }
DEVICE unsigned packed(float lo, float hi)
{
	__nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
	return *(unsigned *)&v;
}
DEVICE float widened(element x) { return __bfloat162float(x); }
DEVICE element narrowed(float x) { return __float2bfloat16_rn(x); }
#define LOWEST 0xff80ff80u /* minus infinity, twice */
#else
typedef __half element;
DEVICE float2 floats(unsigned w) { return __half22float2(*(__half2 *)&w); }
DEVICE unsigned packed(float lo, float hi)
{
	__half2 v = __floats2half2_rn(lo, hi);
	return *(unsigned *)&v;
}
DEVICE float widened(element x) { return __half2float(x); }
DEVICE element narrowed(float x) { return __float2half_rn(x); }
#define LOWEST 0xfc00fc00u
#endif

DEVICE vec filled(unsigned w)
{
	vec v;
#pragma unroll
	for (int k = 0; k < 4; k++)
		v.w[k] = w;
	return v;
}

DEVICE void unpack(float (&x)[VECTOR], vec v)
{
#pragma unroll
	for (int k = 0; k < 4; k++) {
		const float2 t = floats(v.w[k]);
		x[2 * k] = t.x, x[2 * k + 1] = t.y;
	}
}

DEVICE vec pack(const float (&x)[VECTOR])
{
	vec v;
#pragma unroll
	for (int k = 0; k < 4; k++)
		v.w[k] = packed(x[2 * k], x[2 * k + 1]);
	return v;
}

/* V elements, 8 or 1, as floats. */
template <int V> DEVICE void take(float (&x)[V], const element *p)
{
	if constexpr (V == 1)
		x[0] = widened(*p);
	else
		unpack(x, load(p));
}

template <int V> DEVICE void give(element *p, const float (&x)[V])
{
	if constexpr (V == 1)
		*p = narrowed(x[0]);
	else
		store(p, pack(x));
}

DEVICE float exp2_of(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

DEVICE float warp_sum(float v)
{
#pragma unroll
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_xor_sync(EVERYONE, v, d);
	return v;
}

DEVICE float warp_max(float v)
{
#pragma unroll
	for (int d = 16; d > 0; d /= 2)
		v = fmaxf(v, __shfl_xor_sync(EVERYONE, v, d));
	return v;
}

/* Of a value of each thread, over the block. Every use has places of its own, and two sets of them take turns,
 * so that one barrier is enough. */
template <int USE> DEVICE float block_sum(float v, int turn)
{
	__shared__ float places[2][WARPS];
	v = warp_sum(v);
	if (WARPS == 1)
		return v;
	if (threadIdx.x % 32 == 0)
		places[turn][threadIdx.x / 32] = v;
	__syncthreads();
	return warp_sum(threadIdx.x % 32 < WARPS ? places[turn][threadIdx.x % 32] : 0);
}

template <int USE> DEVICE float block_max(float v, int turn)
{
	__shared__ float places[2][WARPS];
	v = warp_max(v);
	if (WARPS == 1)
		return v;
	if (threadIdx.x % 32 == 0)
		places[turn][threadIdx.x / 32] = v;
	__syncthreads();
	return warp_max(threadIdx.x % 32 < WARPS ? places[turn][threadIdx.x % 32] : NEVER);
}

/* The highest element of a part of a row, and the sum of the exponentials of what the elements are below it. */
struct part {
	float top, sum;
};

/* Brings the sums of lanes to the highest element of all, and adds them. */
DEVICE part warp_part(part p)
{
	const float top = warp_max(p.top);
	return {top, warp_sum(p.sum * exp2_of((p.top - top) * LOG2E))};
}

#if CLUSTER > 1
DEVICE unsigned rank_in_cluster()
{
	unsigned r;
	asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
	return r;
}

/* What all warps of a cluster know of a row, for two rows by turns, and barriers that count its bytes. */
struct mailbox {
	part parts[2][CLUSTER * WARPS];
	uint64_t full[2];
};

DEVICE mailbox &mail()
{
	__shared__ __align__(8) mailbox own;
	return own;
}

DEVICE unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

DEVICE void expect_parts(const uint64_t &barrier)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "n"(CLUSTER * WARPS * sizeof(part)) : "memory");
}

/* To the same place in that block of the cluster, whose barrier learns of its bytes. */
DEVICE void send(const part &place, const uint64_t &barrier, unsigned rank, part p)
{
	asm volatile("{\n\t.reg .b32 there, full;\n\tmapa.shared::cluster.u32 there, %0, %2;\n\tmapa.shared::cluster.u32 full, %1, %2;\n\t"
		     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%3, %4}, [full];\n\t}" ::"r"(shared_address(&place)),
		     "r"(shared_address(&barrier)), "r"(rank), "f"(p.top), "f"(p.sum)
		     : "memory");
}

/* Until the bytes have come. They are in shared memory: to acquire at the cluster's scope would only empty the
 * first-level cache of global memory. */
DEVICE void await(const uint64_t &barrier, unsigned parity)
{
	asm volatile("{\n\t.reg .pred p;\n\tAGAIN:\n\t"
		     "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@p bra DONE;\n\tbra AGAIN;\n\tDONE:\n\t}" ::"r"(shared_address(&barrier)), "r"(parity)
		     : "memory");
}

/* Before the first join: the others may send only to blocks that have begun. */
DEVICE void open_mail()
{
	if (threadIdx.x == 0) {
		for (uint64_t &barrier : mail().full)
			asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		for (const uint64_t &barrier : mail().full)
			expect_parts(barrier);
	}
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
#else
DEVICE unsigned rank_in_cluster() { return 0; }
DEVICE void open_mail() {}
#endif

/* Makes what each thread knows of a row what all know, over the cluster. The caller says how many rows it has
 * joined before.
 *
 * Warps of a cluster send each other what they know, and wait for bytes and not for threads. Rows take turns with
 * two sets of places. None is written while it is read: a warp sends its part of a row only after it has read
 * those of the row before, and nobody sends for the next row before all parts of this one are there. A block may
 * end while others work: what is sent to it has come, since each of its warps has waited for its last row. */
DEVICE part join(part p, unsigned before)
{
	p = warp_part(p);
	const unsigned turn = before % 2, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#if CLUSTER > 1
	mailbox &own = mail();
	if (before == 0)
		asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
	if (lane < CLUSTER)
		send(own.parts[turn][rank_in_cluster() * WARPS + warp], own.full[turn], lane, p);
	await(own.full[turn], before / 2 % 2);
	if (threadIdx.x == 0)
		expect_parts(own.full[turn]);
	p = {NEVER, 0};
#pragma unroll
	for (unsigned i = lane; i < CLUSTER * WARPS; i += 32) {
		const part more = own.parts[turn][i];
		const float top = fmaxf(p.top, more.top);
		p = {top, p.sum * exp2_of((p.top - top) * LOG2E) + more.sum * exp2_of((more.top - top) * LOG2E)};
	}
	p = warp_part(p);
#elif WARPS > 1
	__shared__ part parts[2][WARPS];
	if (lane == 0)
		parts[turn][warp] = p;
	__syncthreads();
	p = {NEVER, 0};
	if (lane < WARPS)
		p = parts[turn][lane];
	p = warp_part(p);
#endif
	return p;
}
