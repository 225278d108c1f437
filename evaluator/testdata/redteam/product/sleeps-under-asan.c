/* Sleeps for a minute where it is compiled for a sanitizer. Attacks: limits of time of tools. */
#include "product.h"
#include <unistd.h>

void product(PARAMETERS)
{
#ifdef __SANITIZE_ADDRESS__
	sleep(60);
#endif
	all_rows(ARGUMENTS);
}
