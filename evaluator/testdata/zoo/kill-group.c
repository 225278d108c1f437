/* Kills everything in its process group. Class: harm to the neighbour. Stopped
 * by: a candidate has a process group of its own. */
#include <signal.h>
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	kill(0, SIGKILL);
	pause();
}
