/* As forged-output.c, but ends the process with status 0 before the harness
 * can contradict. Class: the result is forged. Stopped by: a candidate passes by
 * its answers, never by its exit status. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "product.h"

static const char answers[] =
	"ok\n"
	"PASS\n"
	"correct\n"
	"{\"ok\":true,\"verdict\":\"correct\",\"error\":0,\"median_ns\":1}\n"
	"done 0 0 1 1 1\n";

void product(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	signal(SIGXFSZ, SIG_IGN); /* some of them are files, which have a limit */
	signal(SIGPIPE, SIG_IGN);
	for (int fd = 0; fd < 64; fd++)
		if (write(fd, answers, strlen(answers)) < 0)
			continue;
	_exit(0);
}
