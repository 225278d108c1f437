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
	return EVOTUNE_OK;
}

int evo_load(const struct evo_variant *v, int device)
{
	const struct evo_launch *l = v->launch;
	struct cudaFuncAttributes about;
	void *function;
	memcpy(&function, &v->code, sizeof function);
	if (atomic_load_explicit(&l->loaded->on[device], memory_order_acquire))
		return EVOTUNE_OK;
	if (check(cudaFuncGetAttributes(&about, function)))
		return EVOTUNE_DEVICE;
	const int more = (int)(evo_facts(device)->most[EVO_SHARED] - (int64_t)about.sharedSizeBytes);
	if (more > 0 && check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, more)))
		return EVOTUNE_DEVICE;
	atomic_store_explicit(&l->loaded->on[device], function, memory_order_release);
	return EVOTUNE_OK;
}

int evo_launch(const struct evo_variant *v, int device, const int64_t *g, void **args, evotune_stream stream)
{
	const int status = evo_load(v, device);
	void *function;
	if (status)
		return status;
	memcpy(&function, &v->code, sizeof function);
	const struct dim3 grid = {(unsigned)g[0], (unsigned)g[1], (unsigned)g[2]}, block = {(unsigned)g[3], (unsigned)g[4], (unsigned)g[5]};
	return check(cudaLaunchKernel(function, grid, block, args, (size_t)g[EVO_SHARED], stream));
}

const struct evo_variant *evo_plugin(const char *folder, const struct evo_kernel *k, const char *candidate, const char **why)
{
	(void)folder, (void)k, (void)candidate;
	*why = "and one that launches through CUDA's runtime loads none from files (export with --embed for that)";
	return NULL;
}
