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

/* Devices that are told apart; those beyond are refused. */
#define EVO_MAX_DEVICES 64

/* Places in a launch geometry. */
enum { EVO_GRID, EVO_BLOCK = 3, EVO_SHARED = 6, EVO_WORKSPACE = 7, EVO_GEOMETRY = 8 };

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
};

struct evo_device {
	char name[128];
	int capability;     /* ten times the compute capability */
	int64_t most[7];    /* of each part of a geometry */
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
/* Makes a variant ready on the current device; launches do it when they must. Returns a status. */
int evo_load(const struct evo_variant *v, int device);

#endif
