// Candidates that need sm_90: clusters and tensor maps, kernels in sequence that overlap,
// and a grid whose blocks wait for one another. All but the first are for o = a*x + y.
#include <cooperative_groups.h>
#include <cuda_fp8.h>
#include <stdint.h>

struct alignas(64) tensor_map {
	unsigned char bytes[128];
};

#define CANDIDATE(name) \
	extern "C" __global__ void name(int64_t n, const float *x, const float *y, float *o, float a, float *work)
#define EACH for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)

static __device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ void cluster_barrier()
{
	asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

enum { TILE_COLUMNS = 32, TILE_ROWS = 8, TILE = TILE_COLUMNS * TILE_ROWS };

// A copy in which each block of a pair fetches its tile by the tensor memory accelerator,
// and stores that of the other: without a cluster of two there is no other.
extern "C" __global__ void tile_copy(int64_t rows, int64_t columns, const float *x, float *o,
                                     const __grid_constant__ tensor_map from, const __grid_constant__ tensor_map to)
{
	__shared__ alignas(128) float mine[TILE], theirs[TILE];
	__shared__ alignas(8) unsigned long long full;
	unsigned rank;
	asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	const int row = blockIdx.y * TILE_ROWS, column = blockIdx.x * TILE_COLUMNS, beside = (int)(blockIdx.x ^ 1) * TILE_COLUMNS;
	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_at(&full)) : "memory");
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(&full)), "r"((unsigned)sizeof mine) : "memory");
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_at(mine)),
		             "l"(&from), "r"(shared_at(&full)), "r"(column), "r"(row)
		             : "memory");
	}
	__syncthreads();
	for (unsigned done = 0; !done;)
		asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
		             : "=r"(done)
		             : "r"(shared_at(&full))
		             : "memory");
	cluster_barrier();
	for (int i = threadIdx.x; i < TILE; i += blockDim.x)
		asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\tld.shared::cluster.f32 %0, [there];\n\t}"
		             : "=f"(theirs[i])
		             : "r"(shared_at(mine + i)), "r"(rank ^ 1)
		             : "memory");
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	cluster_barrier();
	if (threadIdx.x == 0) {
		asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&to), "r"(shared_at(theirs)), "r"(beside), "r"(row)
		             : "memory");
		asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
	}
}

// Two kernels: the second adds to what the first has left in the workspace.
CANDIDATE(scale) { EACH work[i] = a * x[i]; }
CANDIDATE(add) { EACH o[i] = work[i] + y[i]; }

static __device__ uint64_t nanoseconds()
{
	uint64_t t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

static __device__ void linger(uint64_t ns)
{
	for (const uint64_t begun = nanoseconds(); nanoseconds() - begun < ns;)
		;
}

static __device__ void let_go() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
static __device__ void await() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The first lets the second begin at once, and takes its time.
CANDIDATE(scale_late)
{
	let_go();
	linger(300000);
	EACH work[i] = a * x[i];
}
CANDIDATE(add_awaited)
{
	await();
	EACH o[i] = work[i] + y[i];
}

// All is done by the first, long after the second has ended, which waits for nothing.
CANDIDATE(all_late)
{
	let_go();
	linger(1000000);
	EACH o[i] = a * x[i] + y[i];
}
CANDIDATE(nothing) {}

// Every block needs what another has left: it traps unless all were launched together.
CANDIDATE(together)
{
	EACH work[i] = a * x[i];
	cooperative_groups::this_grid().sync();
	EACH o[n - 1 - i] = work[n - 1 - i] + y[n - 1 - i];
}

// 8-bit floating point as the device itself converts it.
#define CONVERTED(name, in, out) \
	extern "C" __global__ void name(int64_t rows, int64_t columns, const in *x, out *o) \
	{ \
		for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += (int64_t)gridDim.x * blockDim.x) \
			o[i] = out(float(x[i])); \
	}
CONVERTED(widen_e4m3, __nv_fp8_e4m3, float)
CONVERTED(widen_e5m2, __nv_fp8_e5m2, float)
CONVERTED(narrow_e4m3, float, __nv_fp8_e4m3)
CONVERTED(narrow_e5m2, float, __nv_fp8_e5m2)
