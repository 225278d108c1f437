/* What kernels over rows of halves share: accesses of a fixed number of elements, rows
 * whose columns LANES threads share, copies that run ahead. The template defines THREADS, LANES,
 * VECTOR, ITEMS, FLIGHT, ROUNDS, AHEAD, LOAD_HINT, STORE_HINT, and FILL, the bits of the half that
 * stands for what is past the end of a row. */
#define DEVICE static __device__ __forceinline__
#define GROUPS (THREADS / LANES)          /* rows that a block works on side by side */
#define WARPS ((LANES + 31) / 32)         /* warps that share a row */
#define NARROW (LANES < 32 ? LANES : 32)  /* lanes of one warp that share a row */
#define HELD (LANES * VECTOR * ITEMS)     /* the longest row that stays in registers */
#define BATCH (GROUPS * FLIGHT)           /* rows of a block in one round */
#define EVERYONE 0xffffffffu

/* V elements as they travel. A single one has FILL for company. */
template <int V> struct vec {
	unsigned w[(V + 1) / 2];
};

template <int V> DEVICE vec<V> filled()
{
	vec<V> v;
#pragma unroll
	for (int k = 0; k < (V + 1) / 2; k++)
		v.w[k] = FILL << 16 | FILL;
	return v;
}

/* Accesses are written in PTX, or the compiler takes some of them apart. They are volatile,
 * or it makes some of them before it has asked whether there is anything to read. */
#define LOAD(how, v, p) \
	if constexpr (V == 1) \
		v.w[0] = FILL << 16 | *(const unsigned short *)(p); \
	else if constexpr (V == 2) \
		asm volatile(how ".u32 %0, [%1];" : "=r"(v.w[0]) : "l"(p)); \
	else if constexpr (V == 4) \
		asm volatile(how ".v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "l"(p)); \
	else \
		asm volatile(how ".v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p))

#if LOAD_HINT == 2
#define LOAD_ONCE "ld.global.nc.L1::no_allocate.L2::256B"
#elif LOAD_HINT == 1
#define LOAD_ONCE "ld.global.cs"
#else
#define LOAD_ONCE "ld.global.nc"
#endif

#if STORE_HINT == 1
#define STORE "st.global.cs"
#else
#define STORE "st.global"
#endif

/* For what many rows have in common. */
template <int V> DEVICE vec<V> load_again(const __half *p)
{
	vec<V> v;
	LOAD("ld.global.nc", v, p);
	return v;
}

/* For what is read once. */
template <int V> DEVICE vec<V> load(const __half *p)
{
	vec<V> v;
	LOAD(LOAD_ONCE, v, p);
	return v;
}

template <int V> DEVICE void store(__half *p, vec<V> v)
{
	if constexpr (V == 1)
		*(unsigned short *)p = (unsigned short)v.w[0];
	else if constexpr (V == 2)
		asm volatile(STORE ".u32 [%0], %1;" ::"l"(p), "r"(v.w[0]) : "memory");
	else if constexpr (V == 4)
		asm volatile(STORE ".v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]) : "memory");
	else
		asm volatile(STORE ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}

/* What one thread takes of a stretch of a row: every LANES-th vector from its own on, of which
 * the row has so many elements left. */
template <int V, int N> DEVICE void fetch(vec<V> (&x)[N], const __half *own, int left)
{
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = i * LANES * V < left ? load<V>(own + i * LANES * V) : filled<V>();
}

template <int V, int N> DEVICE void fetch_parameters(vec<V> (&x)[N], const __half *own, int left)
{
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = i * LANES * V < left ? load_again<V>(own + i * LANES * V) : filled<V>();
}

/* What is left of a row for this lane, as far as an int counts. */
template <int V> DEVICE int rest(int64_t cols)
{
	return (int)min(cols, (int64_t)1 << 30) - (int)(threadIdx.x % LANES) * V;
}

DEVICE __half2 halves(unsigned w)
{
	return *(__half2 *)&w;
}

DEVICE float2 floats(unsigned w)
{
	return __half22float2(halves(w));
}

DEVICE unsigned packed(float lo, float hi)
{
	__half2 h = __floats2half2_rn(lo, hi);
	return *(unsigned *)&h;
}

/* Whether rows of so many columns can be read and written in vectors. */
DEVICE bool aligned(int64_t cols, const void *x, const void *y)
{
	return cols % VECTOR == 0 && ((uint64_t)x | (uint64_t)y) % (2 * VECTOR) == 0;
}

DEVICE float warp_sum(float v)
{
#pragma unroll
	for (int d = NARROW / 2; d > 0; d /= 2)
		v += __shfl_xor_sync(EVERYONE, v, d);
	return v;
}

#if LANES > 32
/* A barrier for the threads of one row; every row has its own. */
DEVICE void meet(int group)
{
#if GROUPS == 1
	__syncthreads();
#else
	asm volatile("bar.sync %0, %1;" ::"r"(group), "n"(LANES) : "memory");
#endif
}
#endif

/* Makes each of N sums over lanes one over rows. Two sets of places take turns, so that
 * one barrier is enough. */
template <int N> DEVICE void total(float (&v)[N], int group, int &turn)
{
#pragma unroll
	for (int f = 0; f < N; f++)
		v[f] = warp_sum(v[f]);
#if LANES > 32
	__shared__ float sums[2][GROUPS][N][WARPS];
	const int warp = threadIdx.x % LANES / 32;
	if (threadIdx.x % 32 == 0)
#pragma unroll
		for (int f = 0; f < N; f++)
			sums[turn][group][f][warp] = v[f];
	meet(group);
#pragma unroll
	for (int f = 0; f < N; f++) {
		v[f] = 0;
#pragma unroll 4
		for (int w = 0; w < WARPS; w++)
			v[f] += sums[turn][group][f][w];
	}
	turn ^= 1;
#endif
}

#if AHEAD > 0
/* Rows on their way: each thread has places of its own, so that nobody waits for anybody. */
DEVICE unsigned place(const void *stages, int stage, int f, int i)
{
	return (unsigned)__cvta_generic_to_shared(stages) + (((stage * FLIGHT + f) * ITEMS + i) * THREADS + threadIdx.x) * (2 * VECTOR);
}

DEVICE void send(unsigned to, const __half *from, bool exists)
{
#if VECTOR == 8
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
#else
	asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(2 * VECTOR), "r"(exists ? 2 * VECTOR : 0) : "memory");
#endif
}

DEVICE void sent()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the last AHEAD have come. */
DEVICE void arrived()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
}

DEVICE vec<VECTOR> taken(unsigned from)
{
	vec<VECTOR> v;
#if VECTOR == 8
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "r"(from) : "memory");
#elif VECTOR == 4
	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.w[0]), "=r"(v.w[1]) : "r"(from) : "memory");
#else
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v.w[0]) : "r"(from) : "memory");
#endif
	return v;
}
#endif

/* Every batch of rows of this block, in turn: work(rows, x) gets a batch's first row of this
 * group and what this thread holds of its FLIGHT rows. */
template <class F> DEVICE void each_batch(int64_t ROWS, int64_t COLS, const __half *X, F work)
{
	const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
	const int left = (int)COLS - lane * VECTOR;
	int64_t batch = (int64_t)blockIdx.x * BATCH;
	vec<VECTOR> x[FLIGHT][ITEMS];
	auto own = [&](int64_t batch, int f) { return X + (batch + f * GROUPS + group) * COLS + lane * VECTOR; };
	auto length = [&](int64_t batch, int f) { return batch + f * GROUPS + group < ROWS ? left : 0; };
#if ROUNDS == 1
#pragma unroll
	for (int f = 0; f < FLIGHT; f++)
		fetch<VECTOR, ITEMS>(x[f], own(batch, f), length(batch, f));
	work(batch + group, x);
#else
	const int64_t step = (int64_t)gridDim.x * BATCH;
#if AHEAD > 0
	extern __shared__ __align__(16) unsigned char stages[];
	auto ahead = [&](int64_t batch, int stage) {
#pragma unroll
		for (int f = 0; f < FLIGHT; f++)
#pragma unroll
			for (int i = 0; i < ITEMS; i++) {
				bool exists = i * LANES * VECTOR < length(batch, f);
				send(place(stages, stage, f, i), exists ? own(batch, f) + i * LANES * VECTOR : X, exists);
			}
		sent();
	};
#pragma unroll
	for (int s = 0; s < AHEAD; s++)
		ahead(batch + s * step, s);
	int stage = 0;
	for (; batch < ROWS; batch += step) {
		/* The place that was emptied a round ago. */
		ahead(batch + AHEAD * step, stage == 0 ? AHEAD : stage - 1);
		arrived();
#pragma unroll
		for (int f = 0; f < FLIGHT; f++)
#pragma unroll
			for (int i = 0; i < ITEMS; i++) {
				x[f][i] = taken(place(stages, stage, f, i));
				if (i * LANES * VECTOR >= left && FILL != 0)
					x[f][i] = filled<VECTOR>();
			}
		stage = stage == AHEAD ? 0 : stage + 1;
		work(batch + group, x);
	}
	asm volatile("cp.async.wait_all;" ::: "memory");
#elif NEXT
	vec<VECTOR> next[FLIGHT][ITEMS];
#pragma unroll
	for (int f = 0; f < FLIGHT; f++)
		fetch<VECTOR, ITEMS>(next[f], own(batch, f), length(batch, f));
	for (; batch < ROWS; batch += step) {
#pragma unroll
		for (int f = 0; f < FLIGHT; f++)
#pragma unroll
			for (int i = 0; i < ITEMS; i++)
				x[f][i] = next[f][i];
#pragma unroll
		for (int f = 0; f < FLIGHT; f++)
			fetch<VECTOR, ITEMS>(next[f], own(batch + step, f), length(batch + step, f));
		work(batch + group, x);
	}
#else
	for (; batch < ROWS; batch += step) {
#pragma unroll
		for (int f = 0; f < FLIGHT; f++)
			fetch<VECTOR, ITEMS>(x[f], own(batch, f), length(batch, f));
		work(batch + group, x);
	}
#endif
#endif
}
