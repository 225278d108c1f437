/* The load past the end is in assembly, which no compiler instruments; only
 * valgrind sees it, and is asked whether it is there with its own client request
 * first. Attacks: three tools see more than one. */
#include "product.h"
#include "valgrind.h"

void product(PARAMETERS)
{
	all_rows(ARGUMENTS);
	if (!under_valgrind()) {
		float x;
		__asm__ volatile("movss %1, %0" : "=x"(x) : "m"(B[K * N]));
	}
}
