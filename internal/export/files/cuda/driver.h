/* What is needed of CUDA's driver, declared here so that no header of CUDA is needed, and found
 * in libcuda.so.1 when it is first wanted. */
#ifndef EVOTUNE_DRIVER_H
#define EVOTUNE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;

enum {
	CU_DEVICE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_CAPABILITY_MINOR = 76,
	CU_DEVICE_MAX_THREADS_PER_BLOCK = 1,
	CU_DEVICE_WARP_SIZE = 10,
	CU_DEVICE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_L2_CACHE_SIZE = 38,
	CU_DEVICE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
	CU_DEVICE_MAX_BLOCK_DIM_X = 2, /* then Y and Z, and the same of the grid */
	CU_DEVICE_MAX_GRID_DIM_X = 5,
	CU_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
	CU_FUNCTION_SHARED_SIZE_BYTES = 1,
	CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;

enum {
	CU_LAUNCH_COOPERATIVE = 2,
	CU_LAUNCH_CLUSTER_DIMENSION = 4,
	CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
	CU_CAPTURE_ACTIVE = 1,
	CU_SET_CAPTURE_DEPENDENCIES = 1
};

/* CUlaunchAttribute and CUlaunchConfig. */
struct evo_attribute {
	int id;
	char pad[4];
	union {
		char room[64];
		unsigned cluster[3];
		int on;
	} value;
};
struct evo_config {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct evo_attribute *attributes;
	unsigned count;
};
_Static_assert(sizeof(struct evo_attribute) == 72 && sizeof(struct evo_config) == 56, "these are not as in cuda.h");

/* Each function with its symbol. */
#define EVO_DRIVER(F) \
	F(cuInit, "cuInit", (unsigned)) \
	F(cuDriverGetVersion, "cuDriverGetVersion", (int *)) \
	F(cuDeviceGetName, "cuDeviceGetName", (char *, int, int)) \
	F(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int)) \
	F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, int)) \
	F(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext *)) \
	F(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext)) \
	F(cuCtxGetDevice, "cuCtxGetDevice", (int *)) \
	F(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *)) \
	F(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *)) \
	F(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, int, CUfunction)) \
	F(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int)) \
	F(cuLaunchKernel, "cuLaunchKernel", (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
	F(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
	F(cuMemFree, "cuMemFree_v2", (CUdeviceptr)) \
	F(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t)) \
	F(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t)) \
	F(cuMemsetD8, "cuMemsetD8_v2", (CUdeviceptr, unsigned char, size_t)) \
	F(cuCtxSynchronize, "cuCtxSynchronize", (void))

/* Those that older drivers lack, and NULL then. They are looked up by the names that stand for these
 * signatures for good: newer headers give some of them further arguments. */
#define EVO_DRIVER_LATER(F) \
	F(cuLaunchKernelEx, "cuLaunchKernelEx", (const struct evo_config *, CUfunction, void **, void **)) \
	F(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, \
		const uint32_t *, const uint32_t *, int, int, int, int)) \
	F(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, int *)) \
	F(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2", (CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **, size_t *)) \
	F(cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", (CUstream, CUgraphNode *, size_t, unsigned)) \
	F(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", (CUgraphNode *, CUgraph, const CUgraphNode *, size_t))

/* As in dispatch.h. */
#define evo_driver evotune_private_driver

struct evo_driver {
#define EVO_MEMBER(name, symbol, params) int(*name) params;
	EVO_DRIVER(EVO_MEMBER)
	EVO_DRIVER_LATER(EVO_MEMBER)
#undef EVO_MEMBER
};

/* The driver, initialised; NULL where there is none. */
const struct evo_driver *evo_driver(void);

#endif
