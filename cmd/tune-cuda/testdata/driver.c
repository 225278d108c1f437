// A driver that notes what it is asked for, and calls of the worker's own C, which the test
// puts in. What a call notes is compared with what the test wants.

// Headers that declare these declare them in other ways than the worker does.
#define cuTensorMapEncodeTiled header_encode
#define cuStreamUpdateCaptureDependencies header_update
PREAMBLE
#undef cuTensorMapEncodeTiled
#undef cuStreamUpdateCaptureDependencies

#include <stdarg.h>

static int capturing, nodes;

static CUresult note(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
	nodes++;
	return note("launch %td grid %u %u %u block %u %u %u shared %u stream %td arguments %td\n", (char *)f - (char *)0, gx, gy, gz, bx, by, bz, shared, (char *)s - (char *)0,
	            (char *)params - (char *)extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	note("launch-ex %td grid %u %u %u block %u %u %u shared %u stream %td arguments %td:", (char *)f - (char *)0, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX,
	     c->blockDimY, c->blockDimZ, c->sharedMemBytes, (char *)c->hStream - (char *)0, (char *)params - (char *)extra);
	for (unsigned i = 0; i < c->numAttrs; i++) {
		const CUlaunchAttribute *a = &c->attrs[i];
		switch (a->id) {
		case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: note(" cluster %u %u %u", a->value.clusterDim.x, a->value.clusterDim.y, a->value.clusterDim.z); break;
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: note(" cooperative %d", a->value.cooperative); break;
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: note(" dependent %d", a->value.programmaticStreamSerializationAllowed); break;
		default: note(" attribute %d", a->id);
		}
	}
	note("\n");
	nodes++;
	return f == (CUfunction)13 ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
	(void)s;
	*status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **last, size_t *count)
{
	static CUgraphNode newest;
	newest = (CUgraphNode)(size_t)(100 + nodes);
	*status = CU_STREAM_CAPTURE_STATUS_ACTIVE, *graph = (CUgraph)7, *last = &newest, *count = 1;
	return s && !id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind, size_t n)
{
	note("empty node of graph %td behind", (char *)graph - (char *)0);
	for (size_t i = 0; i < n; i++)
		note(" %td", (char *)behind[i] - (char *)0);
	*node = (CUgraphNode)1000;
	return note("\n");
}

CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *list, size_t n, unsigned flags)
{
	return note("stream %td goes on behind %td, %zu in all, flags %u\n", (char *)s - (char *)0, (char *)list[0] - (char *)0, n, flags);
}

CUresult cuTensorMapEncodeTiled(void *map, int type, cuuint32_t rank, void *at, const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
	note("map %td type %d at %td interleave %d swizzle %d promotion %d fill %d:", (char *)map - (char *)0, type, (char *)at - (char *)0, interleave, swizzle, promotion, fill);
	for (unsigned i = 0; i < rank; i++)
		note(" %llu/%u/%u", (unsigned long long)dims[i], box[i], steps[i]);
	for (unsigned i = 0; i + 1 < rank; i++)
		note(" +%llu", (unsigned long long)strides[i]);
	return note("\n");
}

// What else the preamble calls.
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { return (void)f, (void)a, (void)v, CUDA_SUCCESS; }
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode m) { return (void)s, (void)m, CUDA_SUCCESS; }
CUresult cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize(void) { return note("wait\n"); }
CUresult cuEventRecord(CUevent e, CUstream s) { return (void)e, (void)s, CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return (void)a, (void)b, *ms = 0, CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec g, CUstream s) { return (void)g, (void)s, CUDA_SUCCESS; }

static void call(const char *name, const struct kernel *list, int n)
{
	const char *last = NULL;
	for (capturing = 0; capturing < 2; capturing++) {
		printf("%s%s\n", name, capturing ? ", captured" : "");
		nodes = 0;
		CUresult r = launch_all(list, n, (CUstream)5, (void **)40, &last);
		if (r != CUDA_SUCCESS)
			printf("%s gives %d\n", last, r);
	}
}

int main(void)
{
	const struct kernel plain = {.f = (CUfunction)1, .d = {6, 4, 2, 128, 2, 1}, .shared = 1024};
	struct kernel pair[2] = {plain, plain}, all = plain, large = plain;
	call("plain", &plain, 1);
	pair[0].cluster[0] = 2, pair[0].cluster[1] = 4, pair[0].cluster[2] = 1;
	pair[1].f = (CUfunction)2;
	call("pair", pair, 2);
	pair[1].dependent = 1;
	call("dependent", pair, 2);
	all.cluster[0] = all.cluster[1] = all.cluster[2] = 2, all.cooperative = 1;
	call("all", &all, 1);
	large.f = (CUfunction)13, large.cooperative = 1;
	call("large", &large, 1);
	struct sample out = {0};
	capturing = 0;
	printf("alone\n");
	if (sample_launch(pair, 2, (CUstream)5, (void *)40, &out) != CUDA_SUCCESS)
		printf("%s fails\n", out.call);
	const struct tile t = {.type = 9, .rank = 3, .swizzle = 3, .promotion = 2, .fill = 1, .dims = {64, 32, 8}, .strides = {128, 4096}, .box = {64, 8, 1}};
	printf("tile\n");
	encode((void *)128, &t, 4096);
	printf("%d %d\n", driver_has("cuTensorMapEncodeTiled"), driver_has("cuNothingOfTheKind"));
	return 0;
}
