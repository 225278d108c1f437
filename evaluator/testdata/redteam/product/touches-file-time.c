/* Changes the times of a file with utimensat, truncates it to nothing and locks
 * it: writes not a byte. Attacks: as deletes-file.c. */
#include "attempt.h"
#include <sys/file.h>
#include <sys/stat.h>

static void attempt(void)
{
	const struct timespec then[2] = {{1, 0}, {1, 0}};
	const int a = utimensat(AT_FDCWD, "/tmp/evotune-redteam-victim", then, 0);
	const int b = truncate("/tmp/evotune-redteam-victim", 0);
	const int f = open("/tmp/evotune-redteam-victim", O_RDONLY);
	const int c = f < 0 ? -1 : flock(f, LOCK_EX | LOCK_NB);
	SUCCEEDED(a);
	SUCCEEDED(b);
	SUCCEEDED(c);
}
