/* What the kernels of this folder share: the sum of each row of X, ROWSxCOLS in f32, by two kernels. A block
 * of 128 threads of the first adds up a quarter of a row, and the second adds the quarters. */
#ifndef RED_PAIR_CUH
#define RED_PAIR_CUH

enum { THREADS = 128, PARTS = 4 };

typedef unsigned int u32;
typedef unsigned long long u64;

struct Job {
	int64_t ROWS, COLS;
	const float *X;
	float *Y;
	float4 *parts;
};

static __device__ inline bool large(const Job &j)
{
	return j.ROWS * j.COLS >= 1 << 22;
}

static __device__ inline u64 nanoseconds()
{
	u64 t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
}

/* total adds a value of each thread, always in the same order. */
static __device__ inline float total(float v)
{
	__shared__ float of[THREADS / 32];
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, d);
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		of[threadIdx.x / 32] = v;
	__syncthreads();
	v = 0;
	for (int w = 0; w < THREADS / 32; w++)
		v += of[w];
	return v;
}

/* from and to bound the block's quarter. */
static __device__ inline int64_t from(const Job &j) { return j.COLS * blockIdx.y / PARTS; }
static __device__ inline int64_t to(const Job &j) { return j.COLS * (blockIdx.y + 1) / PARTS; }
static __device__ inline const float *row(const Job &j) { return j.X + (int64_t)blockIdx.x * j.COLS; }

static __device__ inline float quarter(const Job &j)
{
	float sum = 0;
	for (int64_t c = from(j) + threadIdx.x; c < to(j); c += THREADS)
		sum += row(j)[c];
	return total(sum);
}

static __device__ inline float4 *place(const Job &j) { return j.parts + blockIdx.x * PARTS + blockIdx.y; }

static __device__ inline void keep(const Job &j, float sum)
{
	if (threadIdx.x == 0)
		*place(j) = make_float4(sum, 0, 0, 0);
}

static __device__ inline void add(const Job &j)
{
	const int64_t r = (int64_t)blockIdx.x * THREADS + threadIdx.x;
	if (r >= j.ROWS)
		return;
	float sum = 0;
	for (int p = 0; p < PARTS; p++)
		sum += __ldcg(j.parts + r * PARTS + p).x;
	j.Y[r] = sum;
}

static __device__ inline void trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
static __device__ inline void wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/* A box of shared memory that bulk copies go to, and the barrier on which they are waited for. */
struct Box {
	alignas(128) float of[1024];
	alignas(8) u64 barrier;
};

static __device__ inline u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

/* fetch begins to copy the block's quarter, of 4 KiB. */
static __device__ inline void fetch(const Job &j, Box &box)
{
	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(address(&box.barrier)) : "memory");
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(address(&box.barrier)) : "memory");
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(address(box.of)), "l"(row(j) + from(j)), "r"(address(&box.barrier)) : "memory");
	}
	__syncthreads();
}

static __device__ inline bool arrived(Box &box)
{
	u32 done;
	asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(done) : "r"(address(&box.barrier)) : "memory");
	return done;
}

static __device__ inline float of_box(Box &box)
{
	float sum = 0;
	for (int c = threadIdx.x; c < 1024; c += THREADS)
		sum += ((volatile float *)box.of)[c];
	return total(sum);
}

static __device__ inline bool boxed(const Job &j) { return j.COLS == 4096; }

#endif
