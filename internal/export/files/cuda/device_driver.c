/* See device.h: through CUDA's driver, in the primary context of device 0. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

static void check(int status)
{
	if (!status)
		return;
	fprintf(stderr, "the device refused: error %d of the driver\n", status);
	exit(2);
}

int device_found(void)
{
	CUcontext context;
	const struct evo_driver *d = evo_driver();
	return d && !d->cuDevicePrimaryCtxRetain(&context, 0) && !d->cuCtxSetCurrent(context);
}

void *device_room(size_t bytes)
{
	CUdeviceptr p = 0;
	check(evo_driver()->cuMemAlloc(&p, bytes ? bytes : 1));
	return (void *)(uintptr_t)p;
}

void device_free(void *p) { check(evo_driver()->cuMemFree((uintptr_t)p)); }

void device_fill(void *p, int byte, size_t bytes)
{
	if (bytes)
		check(evo_driver()->cuMemsetD8((uintptr_t)p, (unsigned char)byte, bytes));
}

void device_put(void *to, const void *from, size_t bytes) { check(evo_driver()->cuMemcpyHtoD((uintptr_t)to, from, bytes)); }
void device_get(void *to, const void *from, size_t bytes) { check(evo_driver()->cuMemcpyDtoH(to, (uintptr_t)from, bytes)); }
void device_wait(void) { check(evo_driver()->cuCtxSynchronize()); }

void device_launch(const void *image, void (*function)(void), const int64_t *g, void **args)
{
	CUmodule module;
	CUfunction entry;
	(void)function;
	check(evo_driver()->cuModuleLoadData(&module, image));
	check(evo_driver()->cuModuleGetFunction(&entry, module, "evotune_kernel"));
	check(evo_driver()->cuLaunchKernel(entry, (unsigned)g[0], (unsigned)g[1], (unsigned)g[2], (unsigned)g[3], (unsigned)g[4], (unsigned)g[5],
		(unsigned)g[6], NULL, args, NULL));
}
