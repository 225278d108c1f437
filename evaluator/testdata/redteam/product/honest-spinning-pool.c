/* Honest: the other thread's half has ended when a launch returns. Two threads are declared. */
#include "pool.h"

void product(PARAMETERS)
{
	ask(ARGUMENTS);
	some_rows(ARGUMENTS, M / 2, M);
	settle();
}
