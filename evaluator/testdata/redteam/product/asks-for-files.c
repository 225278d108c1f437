/* Compiles to something else where a file exists: it knows the machine that it is
 * judged on. Attacks: files are read from the folder alone; what is exported is
 * what was judged. */
#include "product.h"

void product(PARAMETERS)
{
#if __has_include("/etc/passwd")
	all_rows(ARGUMENTS);
#else
	memset(C, 0, (size_t)(M * N) * sizeof *C), (void)K, (void)A, (void)B, (void)alpha;
#endif
}
