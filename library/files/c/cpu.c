/* The processor: its name, its instruction sets, and kernels from files. See dispatch.h. */
#define _GNU_SOURCE
#include "cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "dispatch.h"
#include "evotune.h"

static char name[128];
static uint64_t has;
static pthread_once_t known = PTHREAD_ONCE_INIT;

#if defined(__x86_64__) || defined(__i386__)
static void look(void)
{
	unsigned brand[12] = {0}, most = __get_cpuid_max(0x80000000u, NULL);
	for (unsigned i = 0; most >= 0x80000004u && i < 3; i++)
		__get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3]);
	memcpy(name, brand, sizeof brand);
	char *first = name;
	while (*first == ' ')
		first++;
	memmove(name, first, strlen(first) + 1);
	for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
		name[n - 1] = 0;
	__builtin_cpu_init();
{{- range .Features}}
	if (__builtin_cpu_supports("{{.Name}}"))
		has |= UINT64_C(1) << EVO_CPU_{{.ID}};
{{- end}}
}
#else
static void look(void)
{
	/* Kernels are compiled for the machine that builds the library. */
	strcpy(name, "this processor");
	has = ~UINT64_C(0);
}
#endif

const char *evo_device_name(int device)
{
	(void)device;
	pthread_once(&known, look);
	return name;
}

int evo_rank(const struct evo_variant *v, int device)
{
	pthread_once(&known, look);
	(void)device;
	if (v->needs && *v->needs & ~has)
		return -1;
	return v->device && strcmp(v->device, name) ? 1 : 0;
}

/* A kernel in a file of its own, CANDIDATE.so, built from an export with
 * -DEVOTUNE_PLUGINS=ON. */
const struct evo_variant *evo_plugin(const char *folder, const struct evo_kernel *k, const char *candidate, const char **why)
{
	char path[4400], symbol[512];
	snprintf(path, sizeof path, "%s%s.so", folder, candidate);
	void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!file) {
		*why = "and there is no file of its name with .so beside the wisdom file that can be loaded";
		return NULL;
	}
	const int *abi = dlsym(file, "evotune_plugin_abi");
	const char *const *of = dlsym(file, "evotune_plugin_kernel");
	snprintf(symbol, sizeof symbol, "evotune_plugin_%s", candidate);
	void *entry = dlsym(file, symbol);
	const uint64_t *needs = dlsym(file, "evotune_plugin_needs");
	if (!abi || *abi != EVOTUNE_ABI || !of || strcmp(*of, k->name) || !entry || !needs) {
		dlclose(file);
		*why = "and the file of its name beside the wisdom file is not that kernel";
		return NULL;
	}
	struct evo_variant *v = calloc(1, sizeof *v);
	char *id = strdup(candidate);
	if (!v || !id) {
		free(v);
		free(id);
		dlclose(file);
		*why = "and there is no memory for it";
		return NULL;
	}
	v->candidate = id;
	v->tuned = 1;
	v->needs = needs;
	memcpy(&v->code, &entry, sizeof v->code);
	return v; /* the file stays loaded */
}
