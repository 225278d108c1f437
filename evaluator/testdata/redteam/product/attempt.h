/* What the kernels that try one system call share: they try it once, in the
 * first launch, and compute the product whatever came of it. Compiled with
 * -DREPORT a call that was not refused ends the process with SIGABRT, by which
 * the author of a kernel tells a refusal with an error from a success. */
#ifndef RED_ATTEMPT_H
#define RED_ATTEMPT_H
#include "product.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef REPORT
#define SUCCEEDED(x) do { if ((long)(x) >= 0) abort(); } while (0)
#else
#define SUCCEEDED(x) do { if ((long)(x) >= 0) __asm__ volatile(""); } while (0)
#endif

static void attempt(void);

void product(PARAMETERS)
{
	static int tried;
	if (!tried) {
		tried = 1;
		attempt();
	}
	all_rows(ARGUMENTS);
}
#endif
