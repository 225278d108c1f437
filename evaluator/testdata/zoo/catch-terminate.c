/* Catches every signal that can be caught and hangs. Class: hang that resists.
 * Stopped by: the deadline; the process group is killed by the one signal that
 * cannot be caught. */
#include <signal.h>
#include <unistd.h>

#include "product.h"

static void ignore(int signal)
{
	(void)signal;
}

void product(PRODUCT_PARAMETERS)
{
	struct sigaction action = {.sa_handler = ignore};
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &action, 0);
	multiply(PRODUCT_ARGUMENTS);
	for (;;)
		pause();
}
