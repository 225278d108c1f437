/* See gpu.h and dispatch.h. */
#define _GNU_SOURCE
#include "gpu.h"

#include <pthread.h>
#include <string.h>

static struct evo_device devices[EVO_MAX_DEVICES];
static atomic_int known[EVO_MAX_DEVICES];
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

int evo_current(int *device)
{
	int status = evo_number(device);
	if (status)
		return status;
	if (*device < 0 || *device >= EVO_MAX_DEVICES)
		return EVOTUNE_DEVICE;
	if (atomic_load_explicit(&known[*device], memory_order_acquire))
		return EVOTUNE_OK;
	pthread_mutex_lock(&looking);
	if (!atomic_load_explicit(&known[*device], memory_order_relaxed) && !(status = evo_look(*device, &devices[*device])))
		atomic_store_explicit(&known[*device], 1, memory_order_release);
	pthread_mutex_unlock(&looking);
	return status;
}

const struct evo_device *evo_facts(int device) { return &devices[device]; }

const char *evo_device_name(int device) { return devices[device].name; }

const char *evotune_device_name(void)
{
	int device;
	return evo_current(&device) ? "" : evo_device_name(device);
}

int evo_rank(const struct evo_variant *v, int device)
{
	const struct evo_device *d = &devices[device];
	const struct evo_launch *l = v->launch;
	if (l->exact ? d->capability != l->least : d->capability < l->least)
		return -1;
	if (!v->device || !strcmp(v->device, d->name))
		return 0;
	if (v->capability == d->capability)
		return 1;
	return v->capability / 10 == d->capability / 10 ? 2 : 3;
}

static int within(const int64_t *geometry, const struct evo_device *d)
{
	for (int i = 0; i < EVO_WORKSPACE; i++)
		if (geometry[i] < (i < EVO_SHARED) || geometry[i] > d->most[i])
			return 0;
	return geometry[EVO_WORKSPACE] >= 0 &&
		geometry[EVO_BLOCK] * geometry[EVO_BLOCK + 1] * geometry[EVO_BLOCK + 2] <= d->most[EVO_BLOCK];
}

int evo_fits(const struct evo_variant *v, int device, const int64_t *dims)
{
	const struct evo_launch *l = v->launch;
	int64_t geometry[EVO_GEOMETRY];
	if (v->supports && !v->supports(dims))
		return 0;
	if (l->way)
		return l->way->geometry(l, &devices[device], dims, geometry);
	if (!l->geometry)
		return 1;
	l->geometry(dims, geometry);
	return within(geometry, &devices[device]);
}

int evo_geometry(const struct evo_pick *pick, const int64_t *dims, int64_t *geometry)
{
	const struct evo_launch *l;
	if (!pick->variant)
		return EVOTUNE_UNSUPPORTED;
	l = pick->variant->launch;
	if (l->way)
		return l->way->geometry(l, &devices[pick->device], dims, geometry) ? EVOTUNE_OK : EVOTUNE_UNSUPPORTED;
	if (l->geometry)
		l->geometry(dims, geometry);
	else
		memcpy(geometry, pick->line->geometry, EVO_GEOMETRY * sizeof *geometry);
	return within(geometry, &devices[pick->device]) ? EVOTUNE_OK : EVOTUNE_UNSUPPORTED;
}

/* Makes a variant ready. */
static int ready(const struct evo_variant *v, int device)
{
	const struct evo_launch *l = v->launch;
	return l->way && l->way->prepare ? l->way->prepare(device) : evo_load(v, device);
}

int evotune_prepare(void)
{
	int device, status = evo_current(&device);
	for (int k = 0; !status && evo_kernels[k]; k++)
		for (int i = 0; !status && i < evo_kernels[k]->variant_count; i++)
			if (evo_rank(&evo_kernels[k]->variants[i], device) >= 0)
				status = ready(&evo_kernels[k]->variants[i], device);
	return status ? status : evo_wisdom_each(device, evo_load);
}
