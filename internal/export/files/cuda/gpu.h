/* GPUs: their facts, and how kernels are launched on them. Part of a library that evotune
 * exported; private to it. gpu.c is common; either runtime.c or driver.c has the rest. */
#ifndef EVOTUNE_GPU_H
#define EVOTUNE_GPU_H

#include <stdatomic.h>
#include <stdint.h>

#include "dispatch.h"
#include "evotune.h"

/* As in dispatch.h. */
#define evo_current evotune_private_current
#define evo_facts evotune_private_facts
#define evo_geometry evotune_private_geometry
#define evo_launch evotune_private_launch
#define evo_load evotune_private_load
#define evo_look evotune_private_look
#define evo_number evotune_private_number
#define evo_planned evotune_private_planned
#define evo_start evotune_private_start
#define evo_vendor evotune_private_vendor

/* Devices that are told apart; those beyond are refused. */
#define EVO_MAX_DEVICES 64

/* Places in a launch geometry. */
enum { EVO_GRID, EVO_BLOCK = 3, EVO_SHARED = 6, EVO_WORKSPACE = 7, EVO_GEOMETRY = 8 };

/* What definitions may ask of a device: places in its limits. */
enum {
	EVO_CORES,
	EVO_L2_BYTES,
	EVO_CAPABILITY,
	EVO_WARP,
	EVO_MAX_THREADS,
	EVO_MAX_SHARED_BYTES,
	EVO_REGISTERS,
	EVO_LIMITS
};

/* The most kernels in sequence, tensor maps of a kernel, and axes of a tensor map. */
enum { EVO_MAX_STEPS = 16, EVO_MAX_MAPS = 16, EVO_MAX_AXES = 5 };

/* One kernel of a launch. */
struct evo_step {
	int64_t geometry[EVO_GEOMETRY]; /* the workspace is that of the first */
	int64_t cluster[3];             /* 1, 1, 1: none */
	int cooperative;
	int dependent; /* it may begin before the one before it has ended */
};

/* A tensor map. It has no gaps, so that two are compared as they lie in memory. */
struct evo_map {
	int64_t bytes;                                                            /* of the buffer */
	int64_t dims[EVO_MAX_AXES], strides[EVO_MAX_AXES - 1], box[EVO_MAX_AXES]; /* elements, the innermost axis first */
	int64_t swizzle, promotion;                                               /* bytes */
	int buffer, type, element, axes;                                          /* the place among the buffers; as the driver has it; bytes */
	int packed, nan;                                                          /* strides are those of a packed array; what is read outside */
};

/* How kernels are launched at a shape. */
struct evo_plan {
	struct evo_step steps[EVO_MAX_STEPS];
	struct evo_map maps[EVO_MAX_MAPS];
};

struct evo_launch;
struct evo_device;

/* How kernels are launched that need more than a grid over the dimensions, by launch.c, and how a vendor's
 * routine is called, by vendor.c. Only libraries that need them have them. */
struct evo_way {
	/* The geometry of the first kernel. Returns whether a device of these facts can launch all. */
	int (*geometry)(const struct evo_launch *l, const struct evo_device *d, const int64_t *dims, int64_t *geometry);
	/* Whether the driver has what it takes. Returns a status. */
	int (*able)(const struct evo_launch *l);
	/* Launches, see evo_launch. */
	int (*run)(const struct evo_variant *v, int device, void **args, evotune_stream stream);
	/* Makes ready what has no code to load, on the current device; NULL where there is code. Returns a status. */
	int (*prepare)(int device);
};
extern const struct evo_way evo_planned, evo_vendor;

/* The fastest algorithm that a campaign found, at dimensions L, M, N, K: cublasLt's numbers of it, -1 where it tells none. */
struct evo_fastest {
	int64_t dims[4];
	int64_t config[5];
};

/* A product of cublasLt's: C = A B over the dimensions M, N, K, or L, M, N, K. Types and so on are its numbers. */
struct evo_matmul {
	int trans_a, trans_b;         /* A is [K,M], B is [N,K] */
	int type_a, type_b, type_c;
	int bias, residual, out;      /* places among the arrays, -1: none */
	int type_bias, bias_each;     /* -1: that of C; the bias is [L,N] */
	int epilogue, compute, fast;
	const struct evo_fastest *fastest;
	int fastest_count;
};

/* What became of a kernel on each device, for those who launch. */
struct evo_loaded {
	_Atomic(void *) on[EVO_MAX_DEVICES];
};

/* How a variant is launched. */
struct evo_launch {
	int least; /* ten times the least compute capability, 0 when that is not known */
	int exact; /* it runs on that one alone */
	void (*geometry)(const int64_t *dims, int64_t *geometry); /* NULL: only a wisdom file says */
	const void *image; /* a cubin or a fat binary; NULL where evo_variant.code is the kernel */
	struct evo_loaded *loaded;

	const struct evo_way *way; /* the rest is only of those that have one */
	const struct evo_matmul *matmul; /* what vendor.c calls; what is below is what launch.c launches, but for dims and args */
	void (*plan)(const int64_t *dims, const int64_t *limits, struct evo_plan *plan); /* instead of geometry */
	int dims, args;                                                                  /* how many, the workspace included */
	int steps, maps;
	int later;                   /* it needs a driver of CUDA 12 */
	const char *const *entries;  /* of each step, where image is the code */
	const evo_function *codes;   /* the same, where evo_variant.code is */
};

struct evo_device {
	char name[128];
	int capability;     /* ten times the compute capability */
	int64_t most[7];    /* of each part of a geometry */
	int64_t limits[EVO_LIMITS];
};

/* The device that is current, its facts known. Returns a status. */
int evo_current(int *device);
/* The facts of a device that was current before. */
const struct evo_device *evo_facts(int device);
/* The geometry of a choice. Returns EVOTUNE_OK or EVOTUNE_UNSUPPORTED. */
int evo_geometry(const struct evo_pick *pick, const int64_t *dims, int64_t *geometry);
/* Launches on the current device. The last of the arguments is the workspace, which a kernel
 * that has none does not look at. Returns a status. */
int evo_launch(const struct evo_variant *v, int device, const int64_t *geometry, void **args, evotune_stream stream);

/* What differs between the runtime and the driver. */

/* The number of the current device. Returns a status. */
int evo_number(int *device);
/* Its facts. Returns a status. */
int evo_look(int device, struct evo_device *facts);
/* Launches one step of a variant. Returns a status. */
int evo_start(const struct evo_variant *v, int device, int step, const struct evo_step *s, void **args, evotune_stream stream);
/* Makes a variant ready on the current device; launches do it when they must. Returns a status. */
int evo_load(const struct evo_variant *v, int device);

#endif
