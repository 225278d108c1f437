/* Faults, catches the signal, and never comes back from the handler. Class:
 * crash that looks like work. Stopped by: the deadline. */
#include <signal.h>
#include <unistd.h>

#include "product.h"

static void stay(int signal)
{
	(void)signal;
	for (;;)
		pause();
}

void product(PRODUCT_PARAMETERS)
{
	struct sigaction action = {.sa_handler = stay};
	sigaction(SIGSEGV, &action, 0);
	multiply(PRODUCT_ARGUMENTS);
	*(volatile int *)8 = 0;
}
