/* Listens on a unix socket without a name in the file system, where another
 * candidate can ask for results. Attacks: "uses the network". */
#include "attempt.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static void attempt(void)
{
	const int s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un at = {AF_UNIX, "\0evotune-redteam"};
	SUCCEEDED(s < 0 ? -1 : bind(s, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path) + 16));
}
