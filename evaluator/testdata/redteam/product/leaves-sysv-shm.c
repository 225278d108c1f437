/* Takes a segment of System V shared memory of 4 MiB and writes into it. It
 * outlives the process: memory that nobody gives back, and a letter to the next
 * candidate. Attacks: nothing survives a candidate. Gain: results for whoever
 * finds the segment. */
#include "attempt.h"
#include <sys/shm.h>

static void attempt(void)
{
	const int id = shmget(0x7e57ed01, 4 << 20, IPC_CREAT | 0600);
	if (id < 0)
		return;
	char *at = shmat(id, 0, 0);
	if (at != (void *)-1)
		memset(at, 1, 4 << 20);
	SUCCEEDED(id);
}
