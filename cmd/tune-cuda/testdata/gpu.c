// A GPU on which kernels do nothing and time passes only while something runs: a
// driver for the worker, for tests without a device. Its memory is the host's. What is
// not here of the driver does nothing and succeeds; the test adds it.
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double clock_us, graph_us;
static int capturing;

// For the library beside: so long a launch is put into the stream.
void gpu_launch(double us) { *(capturing ? &graph_us : &clock_us) += us; }
int gpu_capturing(void) { return capturing; }

CUresult cuDriverGetVersion(int *v) { return *v = getenv("GPU_DRIVER") ? atoi(getenv("GPU_DRIVER")) : 13000, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { return *n = 1, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { return *d = i, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int bytes, CUdevice d) { return snprintf(name, bytes, "Fake GPU %d", d), CUDA_SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { return *n = (size_t)8 << 30, CUDA_SUCCESS; }
CUresult cuMemGetInfo_v2(size_t *left, size_t *all) { return *left = *all = (size_t)1 << 30, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *v = 1 << 20; break;
	default: *v = 1000;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
	n = (n + 511) / 512 * 512;
	void *m = aligned_alloc(512, n);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (CUdeviceptr)memset(m, 0, n);
	return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) { return free((void *)p), CUDA_SUCCESS; }
CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) { return (*p = calloc(1, n)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY; }
CUresult cuMemFreeHost(void *p) { return free(p), CUDA_SUCCESS; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) { return memcpy((void *)to, from, n), CUDA_SUCCESS; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) { return memcpy(to, (void *)from, n), CUDA_SUCCESS; }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) { return memcpy(to, (void *)from, n), CUDA_SUCCESS; }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return memcpy((void *)to, (void *)from, n), CUDA_SUCCESS; }
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) { return memset((void *)p, v, n), CUDA_SUCCESS; }

CUresult cuEventCreate(CUevent *e, unsigned flags) { return *e = calloc(1, sizeof(double)), CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent e, CUstream s) { return *(double *)e = clock_us, CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return *ms = (*(double *)b - *(double *)a) / 1000, CUDA_SUCCESS; }

// A function is its name.
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { return *f = (CUfunction)strdup(name), CUDA_SUCCESS; }

// The comparison alone does something: outputs that begin otherwise differ by 1. The
// values are where the worker puts them, right before the pointers to them.
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
	gpu_launch(1);
	if (strcmp((char *)f, "evotune_compare"))
		return CUDA_SUCCESS;
	uint64_t *values = params[0], last = ((char *)params - (char *)values) / 8 - 1;
	if (*(uint16_t *)values[0] != *(uint16_t *)values[2]) {
		double *verdict = (double *)values[last];
		verdict[0] = verdict[3] = 1; // the difference, and the sum of squares
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) { return capturing = 1, graph_us = 0, CUDA_SUCCESS; }
CUresult cuStreamEndCapture(CUstream s, CUgraph *g)
{
	double *us = malloc(sizeof *us);
	*us = graph_us;
	*g = (CUgraph)us;
	capturing = 0;
	return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
	double *us = malloc(sizeof *us);
	*us = *(double *)g;
	return *e = (CUgraphExec)us, CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g) { return free(g), CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec e) { return free(e), CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) { return clock_us += *(double *)e, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult r, const char **name) { return *name = "CUDA_ERROR_OF_THE_FAKE", CUDA_SUCCESS; }
