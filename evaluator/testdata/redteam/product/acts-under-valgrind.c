/* As acts-under-asan.c, under valgrind, which it asks for with a client request. */
#include "tries.h"
#include "valgrind.h"

static void attempt(void)
{
	if (under_valgrind())
		try_all();
}
