/* What a kernel in CUDA needs to run on a CPU, one thread after the other. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

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
typedef struct { double x, y, z; } double3;
typedef struct { double x, y, z, w; } double4;
typedef struct { int x, y; } int2;
typedef struct { int x, y, z, w; } int4;
#define make_float2(...) ((float2){__VA_ARGS__})
#define make_float3(...) ((float3){__VA_ARGS__})
#define make_float4(...) ((float4){__VA_ARGS__})
#define make_double2(...) ((double2){__VA_ARGS__})
#define make_double3(...) ((double3){__VA_ARGS__})
#define make_double4(...) ((double4){__VA_ARGS__})
#define make_int2(...) ((int2){__VA_ARGS__})
#define make_int4(...) ((int4){__VA_ARGS__})

/* The threads of a block take turns: each runs to its next barrier. */
struct evotune_arguments; /* what a thread is called with */
static _Thread_local ucontext_t evotune_scheduler;
static _Thread_local struct evotune_fiber { ucontext_t context; int done; } *evotune_now;
static _Thread_local const struct evotune_arguments *evotune_with;
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

/* A launch, of which every thread takes blocks until none is left. */
struct evotune_launch {
	struct evotune_dim3 grid, block;
	int barriers;
	const struct evotune_arguments *with;
	uint64_t next;
};

static void *evotune_blocks(void *launch)
{
	enum { STACK = 1 << 16 };
	struct evotune_launch *l = launch;
	unsigned threads = l->block.x * l->block.y * l->block.z;
	uint64_t blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z, b;
	struct evotune_fiber *fibers = l->barriers ? calloc(threads, sizeof *fibers) : NULL;
	char *stacks = l->barriers ? malloc((size_t)threads * STACK) : NULL;
	if (l->barriers && (!fibers || !stacks))
		abort();
	gridDim = l->grid;
	blockDim = l->block;
	evotune_with = l->with;
	while ((b = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED)) < blocks) {
		blockIdx = (struct evotune_dim3){b % l->grid.x, b / l->grid.x % l->grid.y, b / l->grid.x / l->grid.y};
		if (!l->barriers) {
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
	return NULL;
}

static void evotune_launch(struct evotune_dim3 grid, struct evotune_dim3 block, int barriers, int alone, const struct evotune_arguments *with)
{
	enum { MOST = 64 };
	struct evotune_launch l = {grid, block, barriers, with, 0};
	pthread_t others[MOST];
	int count = 0;
	long cores = alone ? 1 : sysconf(_SC_NPROCESSORS_ONLN);
	while (count < MOST && count + 1 < cores && !pthread_create(&others[count], NULL, evotune_blocks, &l))
		count++;
	evotune_blocks(&l);
	while (count > 0)
		pthread_join(others[--count], NULL);
}
