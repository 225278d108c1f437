/* Launches of more than a grid over the dimensions: over what the device has, in clusters, with all
 * blocks at once, of several kernels in sequence, with tensor maps. See gpu.h. What the driver alone
 * has is asked of the library libcuda.so.1, also where the rest goes through CUDA's runtime: its
 * ways of finding a function of the driver differ between versions. */
#include <stdalign.h>
#include <string.h>

#include "driver.h"
#include "gpu.h"

/* The rules of cuTensorMapEncodeTiled. */
#define MOST_ELEMENTS (INT64_C(1) << 32) /* along an axis */
#define MOST_STRIDE (INT64_C(1) << 40)   /* bytes; a stride is below */
#define MOST_BOX 256
#define ALIGNMENT 16
/* Blocks that a cluster has at most on every device that has clusters. */
#define MOST_CLUSTER 8

/* The place of a number in a list, or -1. */
static int place(int64_t x, const int64_t *list, int count)
{
	for (int i = 0; i < count; i++)
		if (list[i] == x)
			return i;
	return -1;
}

static const int64_t swizzles[] = {0, 32, 64, 128}, promotions[] = {0, 64, 128, 256};

/* Whether a tensor map can be made, and lies within its buffer. Strides become bytes. */
static int mapped(struct evo_map *m)
{
	const int64_t size = m->element, inner = m->box[0] * size;
	for (int i = 0; i < m->axes; i++)
		if (m->dims[i] < 1 || m->dims[i] > MOST_ELEMENTS || m->box[i] < 1 || m->box[i] > MOST_BOX)
			return 0;
	if (inner % ALIGNMENT || place(m->swizzle, swizzles, 4) < 0 || place(m->promotion, promotions, 4) < 0 || (m->swizzle && inner > m->swizzle))
		return 0;
	int64_t packed = size * m->dims[0], end = packed; /* of the last element */
	for (int i = 0; i + 1 < m->axes; i++) {
		if (m->packed)
			m->strides[i] = packed;
		else if (m->strides[i] < 0 || m->strides[i] > MOST_STRIDE / size)
			return 0;
		else
			m->strides[i] *= size;
		if (m->strides[i] % ALIGNMENT || m->strides[i] >= MOST_STRIDE)
			return 0;
		packed = evo_mul(m->strides[i], m->dims[i + 1]);
		end = evo_add(end, evo_mul(m->strides[i], m->dims[i + 1] - 1));
	}
	return end <= m->bytes;
}

static int stepped(const struct evo_step *s, const struct evo_device *d)
{
	const int64_t *g = s->geometry;
	int64_t blocks = 1;
	for (int i = 0; i < EVO_WORKSPACE; i++)
		if (g[i] < (i < EVO_SHARED) || g[i] > d->most[i])
			return 0;
	for (int i = 0; i < 3; i++) {
		if (s->cluster[i] < 1 || s->cluster[i] > MOST_CLUSTER || g[i] % s->cluster[i])
			return 0;
		blocks *= s->cluster[i];
	}
	return blocks <= MOST_CLUSTER && g[EVO_WORKSPACE] >= 0 && g[EVO_BLOCK] * g[EVO_BLOCK + 1] * g[EVO_BLOCK + 2] <= d->most[EVO_BLOCK];
}

/* The launch at a shape. Returns whether the device can do it. */
static int planned(const struct evo_launch *l, const struct evo_device *d, const int64_t *dims, struct evo_plan *plan)
{
	memset(plan, 0, sizeof *plan);
	l->plan(dims, d->limits, plan);
	for (int i = 0; i < l->steps; i++)
		if (!stepped(&plan->steps[i], d))
			return 0;
	for (int i = 0; i < l->maps; i++)
		if (!mapped(&plan->maps[i]))
			return 0;
	return 1;
}

static int geometry(const struct evo_launch *l, const struct evo_device *d, const int64_t *dims, int64_t *out)
{
	struct evo_plan plan;
	const int can = planned(l, d, dims, &plan);
	memcpy(out, plan.steps[0].geometry, sizeof plan.steps[0].geometry);
	return can;
}

static int able(const struct evo_launch *l)
{
	const struct evo_driver *d = evo_driver();
	if (!d)
		return EVOTUNE_DEVICE;
	return !l->later || (d->cuLaunchKernelEx && d->cuTensorMapEncodeTiled) ? EVOTUNE_OK : EVOTUNE_DRIVER;
}

/* A tensor map as it was made last by this thread. It depends on nothing else than what is kept of it. */
struct kept {
	alignas(64) unsigned char code[128];
	struct evo_map of;
	const void *address;
	int device;
};

/* Makes a tensor map of a buffer. Returns a status. */
static int encode(struct kept *k, const struct evo_map *m, int device, const void *address)
{
	static const uint32_t steps[EVO_MAX_AXES] = {1, 1, 1, 1, 1};
	const struct evo_driver *d = evo_driver();
	uint64_t dims[EVO_MAX_AXES], strides[EVO_MAX_AXES - 1] = {0};
	uint32_t box[EVO_MAX_AXES];
	if (k->address == address && k->device == device && !memcmp(&k->of, m, sizeof *m))
		return EVOTUNE_OK;
	for (int i = 0; i < m->axes; i++) {
		dims[i] = (uint64_t)m->dims[i];
		box[i] = (uint32_t)m->box[i];
		if (i)
			strides[i - 1] = (uint64_t)m->strides[i - 1];
	}
	k->address = NULL;
	if (d->cuTensorMapEncodeTiled(k->code, m->type, (uint32_t)m->axes, (void *)(uintptr_t)address, dims, strides, box, steps, 0,
			place(m->swizzle, swizzles, 4), place(m->promotion, promotions, 4), m->nan))
		return EVOTUNE_DEVICE;
	k->of = *m;
	k->address = address;
	k->device = device;
	return EVOTUNE_OK;
}

/* In a graph that is captured, what comes next waits for the node before it alone, and a dependent
 * kernel may end before the one before it. So a node is put behind all kernels of the call. Graphs of
 * older drivers know of no dependent kernels: they are not dependent there. */
#define EDGES_SINCE 12030
struct capture {
	int active, count;
	CUgraph graph;
	CUgraphNode nodes[EVO_MAX_STEPS];
};

static int begin(struct capture *c, const struct evo_launch *l, struct evo_plan *plan, CUstream stream)
{
	const struct evo_driver *d = evo_driver();
	int dependent = 0, status, version;
	memset(c, 0, sizeof *c);
	for (int i = 0; i < l->steps; i++)
		dependent |= plan->steps[i].dependent;
	if (!dependent)
		return EVOTUNE_OK;
	if (!d->cuStreamIsCapturing)
		return EVOTUNE_DRIVER;
	if (d->cuStreamIsCapturing(stream, &status) || d->cuDriverGetVersion(&version))
		return EVOTUNE_DEVICE;
	c->active = status == CU_CAPTURE_ACTIVE && version >= EDGES_SINCE;
	for (int i = 0; status == CU_CAPTURE_ACTIVE && !c->active && i < l->steps; i++)
		plan->steps[i].dependent = 0;
	return c->active && (!d->cuStreamGetCaptureInfo || !d->cuStreamUpdateCaptureDependencies || !d->cuGraphAddEmptyNode) ? EVOTUNE_DRIVER : EVOTUNE_OK;
}

static int note(struct capture *c, CUstream stream)
{
	const CUgraphNode *last;
	size_t count = 0;
	int status;
	if (!c->active)
		return EVOTUNE_OK;
	if (evo_driver()->cuStreamGetCaptureInfo(stream, &status, NULL, &c->graph, &last, &count) || count != 1)
		return EVOTUNE_DEVICE;
	c->nodes[c->count++] = *last;
	return EVOTUNE_OK;
}

static int end(struct capture *c, CUstream stream)
{
	const struct evo_driver *d = evo_driver();
	CUgraphNode all;
	if (!c->active)
		return EVOTUNE_OK;
	return d->cuGraphAddEmptyNode(&all, c->graph, c->nodes, (size_t)c->count) ||
		d->cuStreamUpdateCaptureDependencies(stream, &all, 1, CU_SET_CAPTURE_DEPENDENCIES) ? EVOTUNE_DEVICE : EVOTUNE_OK;
}

static int run(const struct evo_variant *v, int device, void **args, evotune_stream stream)
{
	static _Thread_local struct kept maps[EVO_MAX_MAPS];
	const struct evo_launch *l = v->launch;
	struct evo_plan plan;
	struct capture captured;
	int64_t dims[EVO_MAX_DIMS];
	void *list[l->args + EVO_MAX_MAPS];
	int status = able(l);
	for (int i = 0; i < l->dims; i++)
		dims[i] = *(const int64_t *)args[i];
	if (!status && !planned(l, evo_facts(device), dims, &plan))
		status = EVOTUNE_UNSUPPORTED;
	if (status)
		return status;
	/* Tensor maps stand before the workspace, which is the last. */
	const int before = l->args - 1;
	memcpy(list, args, sizeof *list * (size_t)before);
	for (int i = 0; i < l->maps; i++) {
		const struct evo_map *m = &plan.maps[i];
		if ((status = encode(&maps[i], m, device, *(const void *const *)args[l->dims + m->buffer])))
			return status;
		list[before + i] = maps[i].code;
	}
	list[before + l->maps] = args[before];
	status = begin(&captured, l, &plan, stream);
	for (int i = 0; i < l->steps && !status; i++)
		if (!(status = evo_start(v, device, i, &plan.steps[i], list, stream)))
			status = note(&captured, stream);
	return status ? status : end(&captured, stream);
}

const struct evo_way evo_planned = {geometry, able, run, NULL};
