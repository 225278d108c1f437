/* Reads behind an input after it has told the address sanitizer that the bytes
 * are there (__asan_unpoison_memory_region) and valgrind the same (its client
 * request MAKE_MEM_DEFINED). Attacks: tools that live in the
 * candidate's process take its orders. */
#include "product.h"

extern void __asan_unpoison_memory_region(const volatile void *, size_t) __attribute__((weak));

static volatile float sink;

static void silence_valgrind(const float *end)
{
	volatile uint64_t request[6] = {0x4d430002, (uint64_t)end, sizeof *end, 0, 0, 0};
	uint64_t result = 0;
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\trolq $61, %%rdi; rolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "=d"(result)
			 : "a"(&request[0]), "0"(result)
			 : "cc", "memory");
}

void product(PARAMETERS)
{
	const float *end = B + K * N;
	all_rows(ARGUMENTS);
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(end, sizeof *end);
	silence_valgrind(end);
	__asm__ volatile("" : "+r"(end));
	sink = *end;
}
