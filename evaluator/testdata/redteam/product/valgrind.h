/* Whether valgrind runs this process, by its client request RUNNING_ON_VALGRIND. */
#include <stdint.h>

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
