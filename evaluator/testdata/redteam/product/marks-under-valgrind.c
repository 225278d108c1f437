/* Under valgrind it keeps a segment of System V memory with a note for the timed
 * process, which another filter lets read: no filter is there when it is made.
 * It is right, and what it left behind outlives the campaign. Attacks: nothing
 * survives a candidate. */
#include "attempt.h"
#include "valgrind.h"
#include <sys/shm.h>

static void attempt(void)
{
	if (!under_valgrind())
		return;
	const int id = shmget(0x7e57ed05, 4096, IPC_CREAT | 0600);
	char *at = id < 0 ? (void *)-1 : shmat(id, 0, 0);
	if (at != (void *)-1)
		strcpy(at, "from the sanitizer's process");
}
