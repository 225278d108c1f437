/* Computes nothing and writes what an answer might look like to standard
 * output, to standard error and to every other descriptor that takes it. Class:
 * the result is forged (gpu-mode's pygpubench). Stopped by: what is no answer
 * of the harness is passed over, and the poison is still in the output. */
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
	(void)M, (void)N, (void)K, (void)A, (void)B, (void)C, (void)alpha;
	signal(SIGXFSZ, SIG_IGN); /* some of them are files, which have a limit */
	signal(SIGPIPE, SIG_IGN);
	for (int fd = 0; fd < 64; fd++)
		if (write(fd, answers, strlen(answers)) < 0)
			continue;
}
