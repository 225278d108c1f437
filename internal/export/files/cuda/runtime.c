/* Launches through CUDA's runtime, of kernels that nvcc compiled into this library. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* What the runtime says, as a status. A refusal is told by that alone, and not left behind as the
 * thread's last error. */
static int check(cudaError_t e)
{
	if (e == cudaSuccess)
		return EVOTUNE_OK;
	cudaGetLastError();
	return EVOTUNE_DEVICE;
}

int evo_number(int *device) { return check(cudaGetDevice(device)); }

int evo_look(int device, struct evo_device *facts)
{
	static const enum cudaDeviceAttr limits[] = {
		cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ, cudaDevAttrMaxBlockDimX,
		cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ, cudaDevAttrMaxSharedMemoryPerBlockOptin,
	};
	struct cudaDeviceProp properties;
	if (check(cudaGetDeviceProperties(&properties, device)))
		return EVOTUNE_DEVICE;
	snprintf(facts->name, sizeof facts->name, "%.127s", properties.name);
	facts->capability = 10 * properties.major + properties.minor;
	for (int i = 0; i < 7; i++) {
		int most;
		if (check(cudaDeviceGetAttribute(&most, limits[i], device)))
			return EVOTUNE_DEVICE;
		facts->most[i] = most;
	}
	static const enum cudaDeviceAttr asked[EVO_LIMITS] = {
		[EVO_CORES] = cudaDevAttrMultiProcessorCount, [EVO_L2_BYTES] = cudaDevAttrL2CacheSize, [EVO_WARP] = cudaDevAttrWarpSize,
		[EVO_MAX_THREADS] = cudaDevAttrMaxThreadsPerBlock, [EVO_MAX_SHARED_BYTES] = cudaDevAttrMaxSharedMemoryPerBlockOptin,
		[EVO_REGISTERS] = cudaDevAttrMaxRegistersPerMultiprocessor,
	};
	for (int i = 0; i < EVO_LIMITS; i++) {
		int limit = facts->capability;
		if (i != EVO_CAPABILITY && check(cudaDeviceGetAttribute(&limit, asked[i], device)))
			return EVOTUNE_DEVICE;
		facts->limits[i] = limit;
	}
	return EVOTUNE_OK;
}

/* The kernel of a step, as the runtime names it. */
static void *code_of(const struct evo_variant *v, int step)
{
	const struct evo_launch *l = v->launch;
	void *function;
	memcpy(&function, l->codes ? &l->codes[step] : &v->code, sizeof function);
	return function;
}

int evo_load(const struct evo_variant *v, int device)
{
	const struct evo_launch *l = v->launch;
	struct cudaFuncAttributes about;
	if (atomic_load_explicit(&l->loaded->on[device], memory_order_acquire))
		return EVOTUNE_OK;
	const int status = l->way ? l->way->able(l) : EVOTUNE_OK;
	if (status)
		return status;
	for (int i = 0; i < (l->steps ? l->steps : 1); i++) {
		if (check(cudaFuncGetAttributes(&about, code_of(v, i))))
			return EVOTUNE_DEVICE;
		const int more = (int)(evo_facts(device)->most[EVO_SHARED] - (int64_t)about.sharedSizeBytes);
		if (more > 0 && check(cudaFuncSetAttribute(code_of(v, i), cudaFuncAttributeMaxDynamicSharedMemorySize, more)))
			return EVOTUNE_DEVICE;
	}
	atomic_store_explicit(&l->loaded->on[device], code_of(v, 0), memory_order_release);
	return EVOTUNE_OK;
}

int evo_launch(const struct evo_variant *v, int device, const int64_t *g, void **args, evotune_stream stream)
{
	const struct evo_launch *l = v->launch;
	if (l->way)
		return l->way->run(v, device, args, stream);
	const int status = evo_load(v, device);
	if (status)
		return status;
	const struct dim3 grid = {(unsigned)g[0], (unsigned)g[1], (unsigned)g[2]}, block = {(unsigned)g[3], (unsigned)g[4], (unsigned)g[5]};
	return check(cudaLaunchKernel(code_of(v, 0), grid, block, args, (size_t)g[EVO_SHARED], stream));
}

int evo_start(const struct evo_variant *v, int device, int step, const struct evo_step *s, void **args, evotune_stream stream)
{
	const int64_t *g = s->geometry, *c = s->cluster;
	const struct dim3 grid = {(unsigned)g[0], (unsigned)g[1], (unsigned)g[2]}, block = {(unsigned)g[3], (unsigned)g[4], (unsigned)g[5]};
	const int clustered = c[0] * c[1] * c[2] > 1, status = evo_load(v, device);
	if (status)
		return status;
	if (!clustered && !s->cooperative && !s->dependent)
		return check(cudaLaunchKernel(code_of(v, step), grid, block, args, (size_t)g[EVO_SHARED], stream));
#if CUDART_VERSION >= 11080
	cudaLaunchAttribute list[3];
	cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .dynamicSmemBytes = (size_t)g[EVO_SHARED], .stream = stream, .attrs = list};
	memset(list, 0, sizeof list);
	if (clustered) {
		cudaLaunchAttribute *a = &list[config.numAttrs++];
		a->id = cudaLaunchAttributeClusterDimension;
		a->val.clusterDim.x = (unsigned)c[0], a->val.clusterDim.y = (unsigned)c[1], a->val.clusterDim.z = (unsigned)c[2];
	}
	if (s->cooperative) {
		cudaLaunchAttribute *a = &list[config.numAttrs++];
		a->id = cudaLaunchAttributeCooperative, a->val.cooperative = 1;
	}
	if (s->dependent) {
		cudaLaunchAttribute *a = &list[config.numAttrs++];
		a->id = cudaLaunchAttributeProgrammaticStreamSerialization, a->val.programmaticStreamSerializationAllowed = 1;
	}
	return check(cudaLaunchKernelExC(&config, code_of(v, step), args));
#else
	return EVOTUNE_DRIVER; /* which the toolkit here is too old to ask for more */
#endif
}

const struct evo_variant *evo_plugin(const char *folder, const struct evo_kernel *k, const char *candidate, const char **why)
{
	(void)folder, (void)k, (void)candidate;
	*why = "and one that launches through CUDA's runtime loads none from files (export with --embed for that)";
	return NULL;
}
