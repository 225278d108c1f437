/*
 * C = A B on Hopper's tensor cores: wgmma fed by the tensor memory accelerator, for sm_90a.
 *
 * One warpgroup copies, CONSUMERS multiply. A block is persistent: it takes tile after tile.
 * The copier fills STAGES buffers ahead of the products; two barriers per buffer say "full" (its
 * bytes have landed) and "empty" (all readers of the cluster are done with it). Blocks of a
 * cluster share what they read: each loads a part of it into the shared memory of all.
 *
 * Consumers share a tile (cooperative), or take tiles by turns (pingpong), so that one
 * multiplies while the other stores.
 *
 * What is beyond the matrices is read as zero, and never stored.
 *
 * An implementation chooses by flags:
 *   -DF16, -DBF16, -DE4M3  the type of A and B; C is f16, or else bf16
 *   -DB_BY_K               B's rows are along K (C = A B'); e4m3 needs it
 *   -DBATCHED              the first dimension, L, counts products
 *   -DSCALED               a scalar, alpha, times the product
 *   -DBIAS                 a vector over the columns is added
 *   -DGELU                 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 *   -DGATED                B's columns are gate and up by turns, in groups of 8: silu(gate) up
 *   -DRESIDUAL             a matrix of C's shape, R, is added last
 */
#ifdef F16
#define IN __half
#define OUT __half
#else
#define OUT __nv_bfloat16
#ifdef BF16
#define IN __nv_bfloat16
#else
#define IN __nv_fp8_e4m3
#endif
#endif
#ifdef E4M3
#define BYTES 1
#else
#define BYTES 2
#endif

#define BM 128
#define BN 256
#define BK (128 / BYTES) /* a line of 128 bytes, the width of the swizzle */
#define STAGES 3
#define CONSUMERS 2
#define PINGPONG 0
#define CLUSTER_M 2
#define CLUSTER_N 2
#define CLUSTER (CLUSTER_M * CLUSTER_N)
#define GROUP 4
#define STORED 128 /* columns of C that are stored at once by way of shared memory; 0: from registers */
#define IN_FLIGHT 1

#define THREADS (128 * (CONSUMERS + 1))
#define WM (PINGPONG ? BM : BM / CONSUMERS) /* rows that one warpgroup multiplies */
#define TILES_M (WM / 64)
#define READERS (PINGPONG ? 1 : CONSUMERS) /* warpgroups that read a stage */

#ifdef GATED
#define WIDE 2 /* columns of the product for one of C */
#else
#define WIDE 1
#endif

#define A_BYTES (BM * 128)
#define B_BYTES (BN * 128)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define STORE_BYTES (WM * STORED * 2) /* of one consumer */

#include "hopper.cuh"

/* d += or = a b: 64 rows, BN columns, 32 bytes of K. */
DEVICE void multiply(float d[BN / 2], uint64_t a, uint64_t b, int add)
{
#if defined(F16)
#define KIND "k16.f32.f16.f16"
#elif defined(BF16)
#define KIND "k16.f32.bf16.bf16"
#else
#define KIND "k32.f32.e4m3.e4m3"
#endif
#if defined(E4M3)
#define LAYOUT ""
#elif defined(B_BY_K)
#define LAYOUT ", 0, 0"
#else
#define LAYOUT ", 0, 1"
#endif
	asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %130, 0;\n\t"
		     "wgmma.mma_async.sync.aligned.m64n256" KIND " "
		     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
		     "%128, %129, p, 1, 1" LAYOUT ";\n\t}"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
		     : "l"(a), "l"(b), "r"(add));
}

/* A box of the matrices of one product of the batch. */
#ifdef BATCHED
#define BOX(x, y) x, y, batch
#else
#define BOX(x, y) x, y
#endif

DEVICE unsigned pack(float x, float y)
{
#ifdef F16
	const __half2 both = __floats2half2_rn(x, y);
#else
	const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
#endif
	return *(const unsigned *)&both;
}

#if defined(BIAS) || defined(RESIDUAL)
DEVICE float2 unpack(unsigned both)
{
#ifdef F16
	return __half22float2(*(const __half2 *)&both);
#else
	return __bfloat1622float2(*(const __nv_bfloat162 *)&both);
#endif
}
#endif

#ifdef GELU
DEVICE float gelu(float x) { return __fdividef(x, 1 + __expf(-1.5957691216f * (x + 0.044715f * x * x * x))); }
#endif

/* What an element of C needs besides its sum. */
struct finish {
	float alpha;
	const OUT *bias, *residual;
	int rows, columns;

	/* Two elements of a row, from the sums of 64 rows; the first is in that column of C, and
	 * half is 1 for the row eight below. */
	__device__ __forceinline__ unsigned operator()(const float d[BN / 2], int j, int half, int row, int column) const
	{
#ifdef GATED
		float2 v;
		v.x = __fdividef(d[8 * j + 2 * half], 1 + __expf(-d[8 * j + 2 * half])) * d[8 * j + 4 + 2 * half];
		v.y = __fdividef(d[8 * j + 2 * half + 1], 1 + __expf(-d[8 * j + 2 * half + 1])) * d[8 * j + 4 + 2 * half + 1];
#else
		float2 v = make_float2(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
#endif
#ifdef SCALED
		v = make_float2(alpha * v.x, alpha * v.y);
#endif
#ifdef BIAS
		if (column < columns) {
			const float2 b = unpack(__ldg((const unsigned *)(bias + column)));
			v = make_float2(v.x + b.x, v.y + b.y);
		}
#endif
#ifdef GELU
		v = make_float2(gelu(v.x), gelu(v.y));
#endif
#ifdef RESIDUAL
		if (row < rows && column < columns) {
			const float2 r = unpack(__ldg((const unsigned *)(residual + (int64_t)row * columns + column)));
			v = make_float2(v.x + r.x, v.y + r.y);
		}
#endif
		return pack(v.x, v.y);
	}
};

/* Where tile t begins; GROUP rows of tiles are taken together, down their columns. */
DEVICE void place(int t, int tiles_m, int tiles_n, unsigned rank, int &m, int &n)
{
	const int above = t / (GROUP * tiles_n) * GROUP, height = min(GROUP, tiles_m - above), within = t % (GROUP * tiles_n);
	m = ((above + within % height) * CLUSTER_M + (int)rank % CLUSTER_M) * BM;
	n = (within / height * CLUSTER_N + (int)rank / CLUSTER_M) * BN;
}

/* This warp has read a stage. Every warp says so: the products of one may end before another's. */
DEVICE void release(unsigned empty, int lane)
{
	if (CLUSTER > 1) {
		if (lane < CLUSTER)
			barrier_arrive_at(empty, lane);
	} else if (lane == 0)
		barrier_arrive(empty);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
	gemm(
#ifdef BATCHED
	    int64_t L,
#endif
	    int64_t M, int64_t N, int64_t K, const IN *A, const IN *B,
#ifdef BIAS
	    const OUT *bias,
#endif
#ifdef RESIDUAL
	    const OUT *R,
#endif
	    OUT *C,
#ifdef SCALED
	    float alpha,
#endif
	    const __grid_constant__ evotune_tensor_map map_A, const __grid_constant__ evotune_tensor_map map_B,
	    const __grid_constant__ evotune_tensor_map map_C)
{
	extern __shared__ __align__(1024) unsigned char memory[];
	const unsigned base = shared_address(memory);
	const unsigned staging = base + STAGES * STAGE_BYTES;
	const unsigned full = staging + CONSUMERS * STORE_BYTES, empty = full + 8 * STAGES, turn = empty + 8 * STAGES;
	const int group = threadIdx.x / 128;
	const unsigned rank = CLUSTER > 1 ? rank_in_cluster() : 0;
	const int rows = (int)M, columns = (int)N; /* of C */
	const int tiles_m = (rows + BM * CLUSTER_M - 1) / (BM * CLUSTER_M);
	const int tiles_n = (columns * WIDE + BN * CLUSTER_N - 1) / (BN * CLUSTER_N);
	const int steps = ((int)K + BK - 1) / BK;
#ifdef BATCHED
	const int tiles = tiles_m * tiles_n * (int)L;
#else
	const int tiles = tiles_m * tiles_n;
#endif
	const int first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;

	if (threadIdx.x == 0) {
		prefetch(&map_A);
		prefetch(&map_B);
		for (int s = 0; s < STAGES; s++) {
			barrier_init(full + 8 * s, 1);
			barrier_init(empty + 8 * s, 4 * READERS * CLUSTER);
		}
		barrier_init(turn, 128);
		barrier_init(turn + 8, 128);
		barriers_ready();
	}
	if (CLUSTER > 1)
		cluster_sync();
	else
		__syncthreads();

	if (group == 0) {
#if CONSUMERS > 1
		registers_down_to<24>();
#endif
		if (threadIdx.x / 32 == 0 && elected()) {
			int stage = 0;
			unsigned parity = 1; /* the first round finds every buffer empty */
			for (int t = first; t < tiles; t += clusters) {
				int m, n;
#ifdef BATCHED
				const int batch = t / (tiles_m * tiles_n);
#endif
				place(t % (tiles_m * tiles_n), tiles_m, tiles_n, rank, m, n);
#pragma unroll 1
				for (int k = 0; k < steps; k++) {
					barrier_wait(empty + 8 * stage, parity);
					const unsigned a = base + stage * STAGE_BYTES, b = a + A_BYTES, ready = full + 8 * stage;
					barrier_expect(ready, STAGE_BYTES);
#if CLUSTER_N == 1
					load_box(a, &map_A, ready, BOX(k * BK, m));
#else
					const int part = rank / CLUSTER_M;
					unsigned blocks = 0;
#pragma unroll
					for (int j = 0; j < CLUSTER_N; j++)
						blocks |= 1u << (j * CLUSTER_M + rank % CLUSTER_M);
					load_box_to_all(a + part * (A_BYTES / CLUSTER_N), &map_A, ready, BOX(k * BK, m + part * (BM / CLUSTER_N)), blocks);
#endif
#if CLUSTER_M > 1
					const int mine = rank % CLUSTER_M;
					const unsigned row = ((1u << CLUSTER_M) - 1) << (rank / CLUSTER_M * CLUSTER_M);
#endif
#if defined(B_BY_K) && CLUSTER_M == 1
					load_box(b, &map_B, ready, BOX(k * BK, n));
#elif defined(B_BY_K)
					load_box_to_all(b + mine * (B_BYTES / CLUSTER_M), &map_B, ready, BOX(k * BK, n + mine * (BN / CLUSTER_M)), row);
#elif CLUSTER_M == 1
#pragma unroll
					for (int j = 0; j < BN / 64; j++)
						load_box(b + j * BK * 128, &map_B, ready, BOX(n + j * 64, k * BK));
#else
#pragma unroll
					for (int j = mine * (BN / 64 / CLUSTER_M); j < (mine + 1) * (BN / 64 / CLUSTER_M); j++)
						load_box_to_all(b + j * BK * 128, &map_B, ready, BOX(n + j * 64, k * BK), row);
#endif
					if (++stage == STAGES)
						stage = 0, parity ^= 1;
				}
			}
		}
	} else {
#if CONSUMERS > 1
		registers_up_to<240>();
#endif
		const int consumer = group - 1, thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
		const unsigned own = PINGPONG ? 0 : consumer * WM * 128; /* its rows of A, from a stage's beginning */
#if STORED
		const unsigned out = staging + consumer * STORE_BYTES;
#endif
		const finish done = {
#ifdef SCALED
		    alpha,
#else
		    1,
#endif
#ifdef BIAS
		    bias,
#else
		    nullptr,
#endif
#ifdef RESIDUAL
		    R,
#else
		    nullptr,
#endif
		    rows, columns};
		int stage = 0;
		unsigned parity = 0;
#if PINGPONG
		unsigned round = 0;
		const int start = first + consumer * clusters, stride = clusters * 2;
		if (consumer == 1) {
			stage = steps % STAGES, parity = steps / STAGES & 1;
			barrier_arrive(turn); /* the first turn is the first consumer's */
		}
#else
		const int start = first, stride = clusters;
#endif
		for (int t = start; t < tiles; t += stride) {
			int m, n;
#ifdef BATCHED
			const int batch = t / (tiles_m * tiles_n);
#endif
			place(t % (tiles_m * tiles_n), tiles_m, tiles_n, rank, m, n);
			m += PINGPONG ? 0 : consumer * WM;
			float d[TILES_M][BN / 2] = {}; /* else the compiler puts the products one after the other */
#if PINGPONG
			barrier_wait(turn + 8 * consumer, round & 1);
#endif
			unsigned previous = 0;
#pragma unroll 1
			for (int k = 0; k < steps; k++) {
				barrier_wait(full + 8 * stage, parity);
				const unsigned a = base + stage * STAGE_BYTES + own, b = base + stage * STAGE_BYTES + A_BYTES;
				products_begin();
#pragma unroll
				for (int q = 0; q < 4; q++) {
#ifdef B_BY_K
					const uint64_t right = matrix(b + q * 32, 16, 1024);
#else
					const uint64_t right = matrix(b + q * 2048, BK * 128, 1024);
#endif
#pragma unroll
					for (int i = 0; i < TILES_M; i++)
						multiply(d[i], matrix(a + i * 64 * 128 + q * 32, 16, 1024), right, k + q > 0);
				}
				products_end();
				products_wait<IN_FLIGHT>();
				if (IN_FLIGHT == 0 || k > 0)
					release(empty + 8 * (IN_FLIGHT == 0 ? stage : previous), lane);
				previous = stage;
				if (++stage == STAGES)
					stage = 0, parity ^= 1;
			}
#if PINGPONG
			barrier_arrive(turn + 8 * (1 - consumer));
			round++;
			/* the other consumer's steps */
			parity ^= (stage + steps) / STAGES & 1;
			stage = (stage + steps) % STAGES;
#endif
#if IN_FLIGHT
			products_wait<0>();
#pragma unroll
			for (int i = 0; i < TILES_M; i++)
#pragma unroll
				for (int j = 0; j < BN / 2; j++)
					asm volatile("" : "+f"(d[i][j])::"memory"); /* no use of a sum before the wait */
			release(empty + 8 * previous, lane);
#endif
			n /= WIDE;
#if STORED
#pragma unroll
			for (int j = 0; j < BN / WIDE; j += STORED) {
				if (warp == 0 && elected())
					stores_have_read();
				named_sync(1 + consumer, 128);
#pragma unroll
				for (int i = 0; i < TILES_M; i++)
#pragma unroll
					for (int x = 0; x < STORED; x += 16) {
						unsigned v[4];
#pragma unroll
						for (int h = 0; h < 4; h++)
							v[h] = done(d[i], (j + x) / 8 + h / 2, h % 2, m + i * 64 + warp * 16 + lane / 4 + h % 2 * 8,
								    n + j + x + h / 2 * 8 + lane % 4 * 2);
						const unsigned row = warp * 16 + lane % 16, chunk = x % 64 / 8 + lane / 16;
						store_matrices(out + (x / 64 * TILES_M + i) * 8192 + row * 128 + ((chunk ^ row % 8) * 16), v);
					}
				stores_begin();
				named_sync(1 + consumer, 128);
				if (warp == 0 && elected()) {
#pragma unroll
					for (int x = 0; x < STORED; x += 64)
#pragma unroll
						for (int i = 0; i < TILES_M; i++)
							store_box(&map_C, out + (x / 64 * TILES_M + i) * 8192, BOX(n + j + x, m + i * 64));
					stores_end();
				}
			}
#else
#ifdef BATCHED
			OUT *const c = C + (int64_t)batch * rows * columns;
#else
			OUT *const c = C;
#endif
#pragma unroll
			for (int i = 0; i < TILES_M; i++)
#pragma unroll
				for (int h = 0; h < 2; h++) {
					const int row = m + i * 64 + warp * 16 + lane / 4 + 8 * h;
					if (row < rows)
#pragma unroll
						for (int j = 0; j < BN / WIDE / 8; j++) {
							const int column = n + j * 8 + lane % 4 * 2;
							if (column < columns)
								*(unsigned *)(c + (int64_t)row * columns + column) = done(d[i], j, h, row, column);
						}
				}
#endif
		}
#if STORED
		if (warp == 0 && elected())
			stores_have_read();
#endif
	}
	__syncwarp();
	if (CLUSTER > 1)
		cluster_sync(); /* no block leaves while others write into its shared memory */
}
