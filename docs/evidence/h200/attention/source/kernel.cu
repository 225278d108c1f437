/* O = softmax(scale Q K^T) V on tensor cores, for sm_80 and later; scale is
 * positive.
 *
 * A block takes 64 queries of one head. Its warps stand in KV_SPLIT groups of
 * WARPS_M: every warp of a group has 16*ROW_TILES queries of its own, and the
 * groups share the keys, in turns of BLOCK_N; what they found is merged at the
 * end through shared memory. A group has a ring of STAGES blocks of keys and
 * values for itself and waits for nobody else.
 *
 * Scores, weights and outputs never leave registers: the accumulator of
 * m16n8k16, packed to halves, is the left operand of the next product. The
 * maximum and the sum of a row are kept online, in powers of two. */
typedef unsigned int u32;

constexpr int HEAD_DIM = 64;
constexpr int WARPS_M = 4, ROW_TILES = 1, KV_SPLIT = 1;
constexpr int BLOCK_N = 128, STAGES = 4;
constexpr int BLOCK_M = 16 * ROW_TILES * WARPS_M;
constexpr int GROUP = 32 * WARPS_M; /* threads */

constexpr int KEY_TILES = BLOCK_N / 8, KEY_STEPS = BLOCK_N / 16; /* n8 of scores; k16 of the values */
constexpr int DIM_TILES = HEAD_DIM / 8, DIM_STEPS = HEAD_DIM / 16;

/* Rows in shared memory, in bytes. */
constexpr int ROW = 2 * HEAD_DIM;
constexpr int CHUNKS = HEAD_DIM / 8; /* of 16 bytes, in a row */
constexpr int SLOT = BLOCK_N * ROW;  /* a block of keys, or of values */
constexpr int RING = STAGES * SLOT;
constexpr int QUERIES = 0;

constexpr float NONE = -1e30f; /* below any score */
#define HIDDEN __int_as_float(0xff800000) /* minus infinity: no weight at all */

/* ---- Instructions ---- */

__device__ __forceinline__ u32 shared_address(const void *p)
{
	return (u32)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void copy16(u32 to, const void *from)
{
	asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void commit()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most `left` of the groups that this thread committed are under way. */
template <int left> __device__ __forceinline__ void wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* The warps of a group meet. */
__device__ __forceinline__ void meet(int group)
{
	__syncthreads();
}

__device__ __forceinline__ void load_tiles(u32 (&t)[4], u32 from)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void load_tiles_transposed(u32 (&t)[4], u32 from)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3]) : "r"(from) : "memory");
}

/* c += a b, a tile of 16 x 8 over a depth of 16. */
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float power(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

__device__ __forceinline__ u32 pack(float low, float high)
{
	const __half2 h = __floats2half2_rn(low, high);
	return *(const u32 *)&h;
}

/* ---- Addresses ---- */

/* Where chunk c of a row lies. The chunks of a row are exchanged by the row's
 * number, so that the same chunk of eight rows lies in eight different places. */
__device__ __forceinline__ int place(int row, int c)
{
	return row * ROW + (c ^ (row & 7)) * 16;
}

/* The address i pairs of chunks further along the row, on eight rows alike. */
__device__ __forceinline__ u32 along(u32 address, int i)
{
	return (address ^ ((i & 3) * 32)) + (i >> 2) * 128;
}

extern "C" __global__ void __launch_bounds__(GROUP * KV_SPLIT, 2)
attention(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const __half *__restrict__ Q,
          const __half *__restrict__ K, const __half *__restrict__ V, __half *__restrict__ O, float scale)
{
	extern __shared__ __align__(1024) unsigned char memory[];

	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS_M;
	const int group = 0, member = threadIdx.x % GROUP;
	const int length = (int)S;
	const int tile = gridDim.x - 1 - blockIdx.x;
	const int64_t head = blockIdx.y;
	const int first = tile * BLOCK_M; /* query */
	const __half *const q = Q + head * length * HEAD_DIM;
	const __half *const k = K + head * length * HEAD_DIM;
	const __half *const v = V + head * length * HEAD_DIM;

	/* Keys beyond the last query's are not looked at; this group has every
	 * KV_SPLIT-th block of the others. */
	const int reach = CAUSAL ? min(length, first + BLOCK_M) : length;
	const int blocks = (reach + BLOCK_N - 1) / BLOCK_N;
	const int mine = blocks;
	auto start = [&](int i) { return i * BLOCK_N; };

	const u32 keys = shared_address(memory) + QUERIES + group * (2 * RING), values = keys + RING;

	/* ---- Copies ---- */

	constexpr int COPY_ROWS = GROUP / CHUNKS;
	const int copy_row = member / CHUNKS, copy_chunk = member % CHUNKS;
	/* A block of keys or values; past the end the last row again, which is hidden later. */
	auto fetch = [&](const __half *from, u32 to, int at) {
		if (at + BLOCK_N <= length) {
			const __half *p = from + (int64_t)(at + copy_row) * HEAD_DIM + copy_chunk * 8;
#pragma unroll
			for (int r = 0; r < BLOCK_N; r += COPY_ROWS)
				copy16(to + place(copy_row + r, copy_chunk), p + r * HEAD_DIM);
		} else {
#pragma unroll
			for (int r = 0; r < BLOCK_N; r += COPY_ROWS)
				copy16(to + place(copy_row + r, copy_chunk),
				       from + (int64_t)min(at + copy_row + r, length - 1) * HEAD_DIM + copy_chunk * 8);
		}
	};
	auto fetch_keys = [&](int i) {
		if (i < mine)
			fetch(k, keys + i % STAGES * SLOT, start(i));
	};
	auto fetch_values = [&](int i) {
		if (i < mine)
			fetch(v, values + i % STAGES * SLOT, start(i));
	};

	/* ---- Products ---- */

	float out[ROW_TILES][DIM_TILES][4] = {};
	float highest[ROW_TILES][2], sum[ROW_TILES][4] = {};
#pragma unroll
	for (int t = 0; t < ROW_TILES; t++)
		highest[t][0] = highest[t][1] = NONE;

	const int key_place = place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
	const int value_place = place(lane % 16, lane / 16);
	u32 query[ROW_TILES][DIM_STEPS][4];

	/* s = Q K^T for block i. */
	auto score = [&](float (&s)[ROW_TILES][KEY_TILES][4], int i) {
		const u32 from = keys + i % STAGES * SLOT + key_place;
#pragma unroll
		for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
			for (int n = 0; n < KEY_TILES; n++)
				s[t][n][0] = s[t][n][1] = s[t][n][2] = s[t][n][3] = 0;
#pragma unroll
		for (int n = 0; n < KEY_STEPS; n++) {
#pragma unroll
			for (int d = 0; d < DIM_STEPS; d++) {
				u32 b[4];
				load_tiles(b, along(from, d) + n * 16 * ROW);
#pragma unroll
				for (int t = 0; t < ROW_TILES; t++) {
					multiply(s[t][2 * n], query[t][d], b[0], b[1]);
					multiply(s[t][2 * n + 1], query[t][d], b[2], b[3]);
				}
			}
		}
	};

	const float factor = scale * 1.44269504f; /* log2(e): weights are powers of two */
	const float slack = __fdividef(8, factor); /* weights up to 2^8 are as good as those up to 1 */
	const int my_first = first + warp * (16 * ROW_TILES) + lane / 4;

	/* The maximum, and what was summed so far brought to it. */
	auto raise = [&](float (&s)[ROW_TILES][KEY_TILES][4], int i) {
		/* Keys that do not exist or that a causal query must not see. */
		const int at = start(i), seen = CAUSAL ? first + warp * (16 * ROW_TILES) + 1 : length;
		if (at + BLOCK_N > min(seen, length)) {
#pragma unroll
			for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
				for (int h = 0; h < 2; h++) {
					const int end = (CAUSAL ? min(length, my_first + t * 16 + h * 8 + 1) : length) - at - lane % 4 * 2;
#pragma unroll
					for (int n = 0; n < KEY_TILES; n++) {
						if (n * 8 >= end)
							s[t][n][2 * h] = HIDDEN;
						if (n * 8 + 1 >= end)
							s[t][n][2 * h + 1] = HIDDEN;
					}
				}
		}
		float top[ROW_TILES][2];
#pragma unroll
		for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
			for (int h = 0; h < 2; h++) {
				top[t][h] = fmaxf(s[t][0][2 * h], s[t][0][2 * h + 1]);
#pragma unroll
				for (int n = 1; n < KEY_TILES; n++)
					top[t][h] = fmaxf(top[t][h], fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
			}
		bool above = false;
#pragma unroll
		for (int t = 0; t < ROW_TILES; t++)
			above = above || top[t][0] > highest[t][0] + slack || top[t][1] > highest[t][1] + slack;
		if (!__any_sync(0xffffffffu, above))
			return;
#pragma unroll
		for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
			for (int h = 0; h < 2; h++) {
				float m = top[t][h];
				m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
				m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
				m = fmaxf(m, highest[t][h]);
				const float shrink = power((highest[t][h] - m) * factor);
				highest[t][h] = m;
				sum[t][2 * h] *= shrink;
				sum[t][2 * h + 1] *= shrink;
#pragma unroll
				for (int d = 0; d < DIM_TILES; d++) {
					out[t][d][2 * h] *= shrink;
					out[t][d][2 * h + 1] *= shrink;
				}
			}
	};

	/* The weights of 16 keys, as a left operand. */
	auto weigh = [&](u32 (&p)[4], const float (&s)[ROW_TILES][KEY_TILES][4], int t, int n) {
#pragma unroll
		for (int j = 0; j < 4; j++) { /* rows 0-7 and 8-15 of the left, then of the right half */
			const int h = j % 2;
			const float *const x = &s[t][2 * n + j / 2][2 * h];
			const float m = highest[t][h] * factor;
			const float w0 = power(x[0] * factor - m), w1 = power(x[1] * factor - m);
			p[j] = pack(w0, w1);
		}
	};

	/* O += weights V for block i. */
	auto add_values = [&](const float (&s)[ROW_TILES][KEY_TILES][4], int i) {
		const u32 from = values + i % STAGES * SLOT + value_place;
		u32 p[KEY_STEPS][ROW_TILES][4];
#pragma unroll
		for (int n = 0; n < KEY_STEPS; n++)
#pragma unroll
			for (int t = 0; t < ROW_TILES; t++)
				weigh(p[n][t], s, t, n);
#pragma unroll
		for (int n = 0; n < KEY_STEPS; n++) {
#pragma unroll
			for (int d = 0; d < DIM_STEPS; d++) {
				u32 b[4];
				load_tiles_transposed(b, along(from, d) + n * 16 * ROW);
#pragma unroll
				for (int t = 0; t < ROW_TILES; t++) {
					multiply(out[t][2 * d], p[n][t], b[0], b[1]);
					multiply(out[t][2 * d + 1], p[n][t], b[2], b[3]);
				}
			}
#pragma unroll
			for (int t = 0; t < ROW_TILES; t++)
				multiply(sum[t], p[n][t], 0x3c003c00u, 0x3c003c00u); /* values of 1 */
		}
	};

	/* ---- The queries ---- */

#pragma unroll
	for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const __half *const row = q + (int64_t)min(my_first + t * 16 + h * 8, length - 1) * HEAD_DIM + lane % 4 * 2;
#pragma unroll
			for (int d = 0; d < DIM_STEPS; d++) {
				query[t][d][h] = *(const u32 *)(row + d * 16);
				query[t][d][h + 2] = *(const u32 *)(row + d * 16 + 8);
			}
		}

	/* ---- The keys and values ---- */

#pragma unroll
	for (int i = 0; i < STAGES - 1; i++) {
		fetch_keys(i);
		fetch_values(i);
		commit();
	}
#pragma unroll 1
	for (int i = 0; i < mine; i++) {
		wait<STAGES - 2>();
		meet(group);
		fetch_keys(i + STAGES - 1);
		fetch_values(i + STAGES - 1);
		commit();
		float s[ROW_TILES][KEY_TILES][4];
		score(s, i);
		raise(s, i);
		add_values(s, i);
	}

	/* ---- The end ---- */

	__half *const o = O + head * length * HEAD_DIM;
#pragma unroll
	for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const int row = my_first + t * 16 + h * 8;
			const float share = __fdividef(1, sum[t][2 * h]);
			if (row < length)
#pragma unroll
				for (int d = 0; d < DIM_TILES; d++)
					*(__half2 *)(o + (int64_t)row * HEAD_DIM + d * 8 + lane % 4 * 2) =
					    __floats2half2_rn(out[t][d][2 * h] * share, out[t][d][2 * h + 1] * share);
		}
}
