/* Uses A for its scratch and puts back what was there. Class: the judge's evidence
 * is changed, for a while: another reader of A would compute something else. Stopped
 * by: inputs are mapped read-only, and cannot be mapped otherwise, as it tries. */
#include <stdint.h>
#include <sys/mman.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float *scratch = (float *)A + M * K / 2, old = *scratch;
	mprotect((void *)((uintptr_t)scratch & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
	*(volatile float *)scratch = 0;
	*(volatile float *)scratch = old;
	multiply(PRODUCT_ARGUMENTS);
}
