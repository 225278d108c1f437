/* Opens a library of the machine at run time and computes with what it finds
 * there: the object that was hashed, inspected and exported is not what runs.
 * Takes cosf out of libm, for a factor of 1, so that it is right. Attacks: the
 * identity of a candidate; a vendor's library called instead. */
#include "product.h"
#include <dlfcn.h>

void product(PARAMETERS)
{
	static float (*other)(float);
	if (!other) {
		void *lib = dlopen("libm.so.6", RTLD_NOW);
		other = lib ? (float (*)(float))dlsym(lib, "cosf") : 0;
		if (!other)
			abort();
	}
	all_rows(M, N, K, A, B, C, alpha * other(0.0f));
}
