/* Makes an empty file and a folder in /tmp and in /dev/shm, which the limit on
 * the size of files allows. A name can hold a message. Attacks: "ends one that
 * writes a file". */
#include "attempt.h"
#include <sys/stat.h>

static void attempt(void)
{
	const int a = open("/tmp/evotune-redteam-empty", O_CREAT | O_WRONLY, 0600);
	const int b = open("/dev/shm/evotune-redteam-empty", O_CREAT | O_WRONLY, 0600);
	const int c = mkdir("/tmp/evotune-redteam-folder", 0700);
	const int d = symlink("message", "/tmp/evotune-redteam-link");
	SUCCEEDED(a);
	SUCCEEDED(b);
	SUCCEEDED(c);
	SUCCEEDED(d);
}
