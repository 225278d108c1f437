/* What a kernel in CUDA needs to run on a CPU, one thread after the other. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct evotune_dim3 { unsigned x, y, z; };
static _Thread_local struct evotune_dim3 threadIdx, blockIdx, blockDim, gridDim;

#define __CUDACC_RTC__ 1
#define __global__ static
#define __device__ static
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __inline__ inline
#define __launch_bounds__(...)
#define __shared__ static _Thread_local
#define __constant__ static
#define __ldg(p) (*(p))
#define __fmaf_rn fmaf
#define __expf expf
#define __logf logf
#define __sinf sinf
#define __cosf cosf
#define __powf powf
#define rsqrtf(x) (1.0f / sqrtf(x))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define evotune_atomic(p, v, new) ({ __typeof__(p) at_ = (p); __typeof__(*at_) old_ = *at_, v_ = (v); *at_ = (new); old_; })
#define atomicAdd(p, v) evotune_atomic(p, v, old_ + v_)
#define atomicMax(p, v) evotune_atomic(p, v, old_ > v_ ? old_ : v_)
#define atomicMin(p, v) evotune_atomic(p, v, old_ < v_ ? old_ : v_)
typedef struct { float x, y; } float2;
typedef struct { float x, y, z; } float3;
typedef struct { float x, y, z, w; } float4;
typedef struct { double x, y; } double2;
typedef struct { int x, y; } int2;
typedef struct { int x, y, z, w; } int4;
#define make_float2(...) ((float2){__VA_ARGS__})
#define make_float3(...) ((float3){__VA_ARGS__})
#define make_float4(...) ((float4){__VA_ARGS__})
#define make_double2(...) ((double2){__VA_ARGS__})
#define make_int2(...) ((int2){__VA_ARGS__})
#define make_int4(...) ((int4){__VA_ARGS__})

/* The threads of a block take turns: each runs to its next barrier. */
static _Thread_local ucontext_t evotune_scheduler;
static _Thread_local struct evotune_fiber { ucontext_t context; int done; } *evotune_now;
static void evotune_thread(void);

static void evotune_barrier(void) { swapcontext(&evotune_now->context, &evotune_scheduler); }
#define __syncthreads() evotune_barrier()

static void evotune_fiber_main(void)
{
	evotune_thread();
	evotune_now->done = 1;
}

static void evotune_set_thread(unsigned i)
{
	threadIdx = (struct evotune_dim3){i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

static void evotune_launch(struct evotune_dim3 grid, struct evotune_dim3 block, int barriers)
{
	enum { STACK = 1 << 16 };
	unsigned threads = block.x * block.y * block.z;
	struct evotune_fiber *fibers = barriers ? calloc(threads, sizeof *fibers) : NULL;
	char *stacks = barriers ? malloc((size_t)threads * STACK) : NULL;
	if (barriers && (!fibers || !stacks))
		abort();
	gridDim = grid;
	blockDim = block;
	for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
		for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
			for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
				if (!barriers) {
					for (unsigned i = 0; i < threads; i++) {
						evotune_set_thread(i);
						evotune_thread();
					}
					continue;
				}
				for (unsigned i = 0; i < threads; i++) {
					getcontext(&fibers[i].context);
					fibers[i].done = 0;
					fibers[i].context.uc_link = &evotune_scheduler;
					fibers[i].context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
					fibers[i].context.uc_stack.ss_size = STACK;
					makecontext(&fibers[i].context, evotune_fiber_main, 0);
				}
				for (unsigned left = threads; left;) {
					left = 0;
					for (unsigned i = 0; i < threads; i++) {
						if (fibers[i].done)
							continue;
						evotune_set_thread(i);
						evotune_now = &fibers[i];
						swapcontext(&evotune_scheduler, &fibers[i].context);
						left += !fibers[i].done;
					}
				}
			}
	free(fibers);
	free(stacks);
}
