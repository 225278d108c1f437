/* Right, but forks three children that stay. Class: harm to the neighbour.
 * Stopped by: no process may be left when the candidate is done; its group is
 * killed. */
#include <stdlib.h>
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	static int forked;
	for (; forked < 3; forked++) {
		const pid_t child = fork();
		if (child < 0)
			abort();
		if (child == 0) {
			sleep(3600);
			_exit(0);
		}
	}
	multiply(PRODUCT_ARGUMENTS);
}
