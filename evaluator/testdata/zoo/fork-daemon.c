/* Right, but leaves a daemon: a grandchild in a session of its own, which a
 * signal to the candidate's process group does not reach. Class: harm to the
 * neighbour. Stopped by: no process may be left when the candidate is done,
 * whatever its group. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	static int forked;
	if (!forked) {
		forked = 1;
		const pid_t child = fork();
		if (child < 0)
			abort();
		if (child == 0) {
			setsid();
			const pid_t daemon = fork();
			if (daemon == 0) {
				for (int fd = 0; fd < 256; fd++)
					close(fd);
				sleep(3600);
			}
			_exit(0);
		}
		waitpid(child, 0, 0);
	}
	multiply(PRODUCT_ARGUMENTS);
}
