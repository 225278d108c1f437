/* Right, but slow, and redirects the harness's own calls of the clock to one
 * that runs eight times slower than time does, by writing over the addresses
 * that the loader has put into the program. Class: the clock is bent, by one
 * who shares its memory. Stopped by: times are held against the processor time
 * that the kernel accounted to the process. */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "product.h"

static int slow_clock(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	const long long ns = (now->tv_sec * 1000000000LL + now->tv_nsec) / 8;
	now->tv_sec = ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return 0;
}

/* redirect writes slow_clock over the program's address of clock_gettime in
 * one of its tables of relocations. */
static int redirect(const struct link_map *program, const ElfW(Rela) *table, size_t bytes,
                    const ElfW(Sym) *symbols, const char *names)
{
	for (size_t n = 0; n < bytes / sizeof *table; n++) {
		if (strcmp(names + symbols[ELF64_R_SYM(table[n].r_info)].st_name, "clock_gettime"))
			continue;
		void **slot = (void **)(program->l_addr + table[n].r_offset);
		const uintptr_t page = (uintptr_t)slot & ~(uintptr_t)4095;
		if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE))
			abort();
		*slot = (void *)slow_clock;
		return 1;
	}
	return 0;
}

/* patch is called when the candidate is loaded, before anything is timed. */
__attribute__((constructor)) static void patch(void)
{
	const struct link_map *program = _r_debug.r_map; /* the first is the program */
	const ElfW(Sym) *symbols = 0;
	const char *names = 0;
	const ElfW(Rela) *calls = 0, *data = 0;
	size_t call_bytes = 0, data_bytes = 0;
	for (const ElfW(Dyn) *d = program->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB: symbols = (const void *)d->d_un.d_ptr; break;
		case DT_STRTAB: names = (const void *)d->d_un.d_ptr; break;
		case DT_JMPREL: calls = (const void *)d->d_un.d_ptr; break;
		case DT_PLTRELSZ: call_bytes = d->d_un.d_val; break;
		case DT_RELA: data = (const void *)d->d_un.d_ptr; break;
		case DT_RELASZ: data_bytes = d->d_un.d_val; break;
		}
	}
	if (!symbols || !names ||
	    redirect(program, calls, call_bytes, symbols, names) +
	            redirect(program, data, data_bytes, symbols, names) == 0)
		abort(); /* another harness than this forger knows */
}

void product(PRODUCT_PARAMETERS)
{
	for (int pass = 0; pass < 4; pass++) {
		multiply(PRODUCT_ARGUMENTS);
		__asm__ volatile("" ::: "memory"); /* every pass has to happen */
	}
}
