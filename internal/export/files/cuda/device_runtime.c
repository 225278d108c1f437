/* See device.h: through CUDA's runtime. */
#include "device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(cudaError_t e)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "the device refused: %s\n", cudaGetErrorString(e));
	exit(2);
}

int device_found(void)
{
	int n = 0;
	return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

void *device_room(size_t bytes)
{
	void *p = NULL;
	check(cudaMalloc(&p, bytes ? bytes : 1));
	return p;
}

void device_free(void *p) { check(cudaFree(p)); }
void device_fill(void *p, int byte, size_t bytes) { check(cudaMemset(p, byte, bytes)); }
void device_put(void *to, const void *from, size_t bytes) { check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice)); }
void device_get(void *to, const void *from, size_t bytes) { check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost)); }
void device_wait(void) { check(cudaDeviceSynchronize()); }

void device_launch(const void *image, void (*function)(void), const int64_t *g, void **args)
{
	void *entry;
	const struct dim3 grid = {(unsigned)g[0], (unsigned)g[1], (unsigned)g[2]}, block = {(unsigned)g[3], (unsigned)g[4], (unsigned)g[5]};
	(void)image;
	memcpy(&entry, &function, sizeof entry);
	check(cudaLaunchKernel(entry, grid, block, args, (size_t)g[6], NULL));
}
