/* The same with the request MAKE_MEM_DEFINED for the bytes behind the input, and
 * a function that the address sanitizer is told to leave alone: one byte after
 * the other is declared to be there. Attacks: as silences-sanitizers.c. */
#include "product.h"

static volatile float sink;

__attribute__((no_sanitize("address", "undefined"), noinline)) static float behind(const float *end)
{
	volatile uint64_t request[6] = {0x4d430002, (uint64_t)end, sizeof *end, 0, 0, 0};
	uint64_t result = 0;
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\trolq $61, %%rdi; rolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "=d"(result)
			 : "a"(&request[0]), "0"(result)
			 : "cc", "memory");
	return *end;
}

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	sink = behind(B + K * N);
}
