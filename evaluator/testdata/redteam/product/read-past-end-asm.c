/* The load past the end is in assembly, which no compiler instruments; only
 * valgrind sees it, and is asked whether it is there with its own client request
 * first. Attacks: three tools see more than one. */
#include "product.h"

static uint64_t under_valgrind(void)
{
	volatile uint64_t request[6] = {0x1001, 0, 0, 0, 0, 0};
	uint64_t result = 0;
	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\trolq $61, %%rdi; rolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "=d"(result)
			 : "a"(&request[0]), "0"(result)
			 : "cc", "memory");
	return result;
}

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	if (!under_valgrind()) {
		float x;
		__asm__ volatile("movss %1, %0" : "=x"(x) : "m"(B[K * N]));
	}
}
