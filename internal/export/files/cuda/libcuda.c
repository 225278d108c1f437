/* See driver.h. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct evo_driver driver;
static int found;
static pthread_once_t sought = PTHREAD_ONCE_INIT;

static void seek(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	void *symbol;
	if (!library)
		return;
#define EVO_FIND(name, text, params) \
	if (!(symbol = dlsym(library, text))) \
		return; \
	memcpy(&driver.name, &symbol, sizeof symbol);
	EVO_DRIVER(EVO_FIND)
#undef EVO_FIND
#define EVO_FIND(name, text, params) \
	symbol = dlsym(library, text); \
	memcpy(&driver.name, &symbol, sizeof symbol);
	EVO_DRIVER_LATER(EVO_FIND)
#undef EVO_FIND
	found = driver.cuInit(0) == 0;
}

const struct evo_driver *evo_driver(void)
{
	pthread_once(&sought, seek);
	return found ? &driver : NULL;
}
