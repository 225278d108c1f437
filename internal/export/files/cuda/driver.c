/* Launches through CUDA's driver, of machine code that the library holds or reads from files. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* The name of every kernel in its image. */
#define ENTRY "evotune_kernel"

/* A thread that has no context gets that of device 0, as CUDA's runtime does it. */
int evo_number(int *device)
{
	const struct evo_driver *d = evo_driver();
	CUcontext context = NULL;
	if (!d || d->cuCtxGetCurrent(&context))
		return EVOTUNE_DEVICE;
	if (!context && (d->cuDevicePrimaryCtxRetain(&context, 0) || d->cuCtxSetCurrent(context)))
		return EVOTUNE_DEVICE;
	return d->cuCtxGetDevice(device) ? EVOTUNE_DEVICE : EVOTUNE_OK;
}

int evo_look(int device, struct evo_device *facts)
{
	const struct evo_driver *d = evo_driver();
	int major, minor, most;
	if (d->cuDeviceGetName(facts->name, sizeof facts->name, device) ||
		d->cuDeviceGetAttribute(&major, CU_DEVICE_CAPABILITY_MAJOR, device) ||
		d->cuDeviceGetAttribute(&minor, CU_DEVICE_CAPABILITY_MINOR, device))
		return EVOTUNE_DEVICE;
	facts->capability = 10 * major + minor;
	for (int i = 0; i < 7; i++) {
		const int what = i < EVO_BLOCK ? CU_DEVICE_MAX_GRID_DIM_X + i :
			i < EVO_SHARED ? CU_DEVICE_MAX_BLOCK_DIM_X + i - EVO_BLOCK : CU_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
		if (d->cuDeviceGetAttribute(&most, what, device))
			return EVOTUNE_DEVICE;
		facts->most[i] = most;
	}
	static const int limits[EVO_LIMITS] = {
		[EVO_CORES] = CU_DEVICE_MULTIPROCESSOR_COUNT, [EVO_L2_BYTES] = CU_DEVICE_L2_CACHE_SIZE, [EVO_WARP] = CU_DEVICE_WARP_SIZE,
		[EVO_MAX_THREADS] = CU_DEVICE_MAX_THREADS_PER_BLOCK, [EVO_MAX_SHARED_BYTES] = CU_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
		[EVO_REGISTERS] = CU_DEVICE_MAX_REGISTERS_PER_MULTIPROCESSOR,
	};
	for (int i = 0; i < EVO_LIMITS; i++) {
		most = facts->capability;
		if (i != EVO_CAPABILITY && d->cuDeviceGetAttribute(&most, limits[i], device))
			return EVOTUNE_DEVICE;
		facts->limits[i] = most;
	}
	return EVOTUNE_OK;
}

/* A kernel in a context. One is never changed or freed: a launch may be reading it. */
struct ready {
	CUcontext context;
	CUfunction functions[]; /* of each step */
};

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static int load(const struct evo_driver *d, const struct evo_variant *v, int device, CUcontext context)
{
	const struct evo_launch *l = v->launch;
	const int steps = l->steps ? l->steps : 1;
	struct ready *r = malloc(sizeof *r + (size_t)steps * sizeof *r->functions);
	CUmodule module;
	int bytes, status = EVOTUNE_OK;
	const int64_t most = evo_facts(device)->most[EVO_SHARED];
	if (!r)
		return EVOTUNE_NO_MEMORY;
	r->context = context;
	if (l->way)
		status = l->way->able(l);
	if (!status && d->cuModuleLoadData(&module, l->image))
		status = EVOTUNE_DEVICE;
	for (int i = 0; i < steps && !status; i++) {
		CUfunction *f = &r->functions[i];
		if (d->cuModuleGetFunction(f, module, l->entries ? l->entries[i] : ENTRY) ||
			d->cuFuncGetAttribute(&bytes, CU_FUNCTION_SHARED_SIZE_BYTES, *f) ||
			(bytes < most && d->cuFuncSetAttribute(*f, CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most - bytes)))
			status = EVOTUNE_DEVICE;
	}
	if (status) {
		free(r);
		return status;
	}
	atomic_store_explicit(&l->loaded->on[device], r, memory_order_release);
	return EVOTUNE_OK;
}

static int ready(const struct evo_driver *d, const struct evo_variant *v, int device, const struct ready **r)
{
	_Atomic(void *) *at = &((const struct evo_launch *)v->launch)->loaded->on[device];
	CUcontext context;
	int status = EVOTUNE_OK;
	if (d->cuCtxGetCurrent(&context))
		return EVOTUNE_DEVICE;
	*r = atomic_load_explicit(at, memory_order_acquire);
	if (*r && (*r)->context == context)
		return EVOTUNE_OK;
	pthread_mutex_lock(&loading);
	*r = atomic_load_explicit(at, memory_order_acquire);
	if (!*r || (*r)->context != context) {
		status = load(d, v, device, context);
		*r = atomic_load_explicit(at, memory_order_acquire);
	}
	pthread_mutex_unlock(&loading);
	return status;
}

int evo_load(const struct evo_variant *v, int device)
{
	const struct ready *r;
	return ready(evo_driver(), v, device, &r);
}

int evo_launch(const struct evo_variant *v, int device, const int64_t *g, void **args, evotune_stream stream)
{
	const struct evo_driver *d = evo_driver();
	const struct evo_launch *l = v->launch;
	const struct ready *r;
	if (l->way)
		return l->way->run(v, device, args, stream);
	const int status = ready(d, v, device, &r);
	if (status)
		return status;
	return d->cuLaunchKernel(r->functions[0], (unsigned)g[0], (unsigned)g[1], (unsigned)g[2], (unsigned)g[3], (unsigned)g[4], (unsigned)g[5],
		(unsigned)g[EVO_SHARED], stream, args, NULL) ? EVOTUNE_DEVICE : EVOTUNE_OK;
}

int evo_start(const struct evo_variant *v, int device, int step, const struct evo_step *s, void **args, evotune_stream stream)
{
	const struct evo_driver *d = evo_driver();
	const struct ready *r;
	const int64_t *g = s->geometry, *c = s->cluster;
	const int status = ready(d, v, device, &r);
	struct evo_attribute list[3] = {0};
	struct evo_config config = {
		.grid = {(unsigned)g[0], (unsigned)g[1], (unsigned)g[2]}, .block = {(unsigned)g[3], (unsigned)g[4], (unsigned)g[5]},
		.shared = (unsigned)g[EVO_SHARED], .stream = stream, .attributes = list,
	};
	if (status)
		return status;
	if (c[0] * c[1] * c[2] > 1)
		list[config.count++] = (struct evo_attribute){.id = CU_LAUNCH_CLUSTER_DIMENSION, .value.cluster = {(unsigned)c[0], (unsigned)c[1], (unsigned)c[2]}};
	if (s->cooperative)
		list[config.count++] = (struct evo_attribute){.id = CU_LAUNCH_COOPERATIVE, .value.on = 1};
	if (s->dependent)
		list[config.count++] = (struct evo_attribute){.id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION, .value.on = 1};
	if (config.count)
		return d->cuLaunchKernelEx(&config, r->functions[step], args, NULL) ? EVOTUNE_DEVICE : EVOTUNE_OK;
	return d->cuLaunchKernel(r->functions[step], config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1], config.block[2],
		config.shared, stream, args, NULL) ? EVOTUNE_DEVICE : EVOTUNE_OK;
}

/* The whole of a file; NULL when it cannot be read. */
static void *contents(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long size;
	if (!f)
		return NULL;
	if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET) && (text = malloc((size_t)size)) &&
		fread(text, 1, (size_t)size, f) != (size_t)size) {
		free(text);
		text = NULL;
	}
	fclose(f);
	return text;
}

/* A kernel in a file of its own, CANDIDATE.cubin, as it lies in an export with --embed. */
const struct evo_variant *evo_plugin(const char *folder, const struct evo_kernel *k, const char *candidate, const char **why)
{
	struct plugin {
		struct evo_variant variant;
		struct evo_launch launch;
		struct evo_loaded loaded;
		char candidate[];
	} *p;
	char path[4400];
	(void)k;
	snprintf(path, sizeof path, "%s%s.cubin", folder, candidate);
	void *image = contents(path);
	if (!image) {
		*why = "and there is no file of its name with .cubin beside the wisdom file that can be read";
		return NULL;
	}
	p = calloc(1, sizeof *p + strlen(candidate) + 1);
	if (!p) {
		free(image);
		*why = "and there is no memory for it";
		return NULL;
	}
	strcpy(p->candidate, candidate);
	p->launch.image = image;
	p->launch.loaded = &p->loaded;
	p->variant = (struct evo_variant){.candidate = p->candidate, .tuned = 1, .launch = &p->launch};
	return &p->variant; /* for good: a table of wisdom names it */
}
