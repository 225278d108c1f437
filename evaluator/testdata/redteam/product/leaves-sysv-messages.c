/* Leaves a message in a System V queue, and a set of semaphores. Attacks: as
 * leaves-sysv-shm.c. Gain: the same. */
#include "attempt.h"
#include <sys/msg.h>
#include <sys/sem.h>

static void attempt(void)
{
	const int id = msgget(0x7e57ed02, IPC_CREAT | 0600);
	semget(0x7e57ed03, 1, IPC_CREAT | 0600);
	if (id < 0)
		return;
	const struct { long type; char text[32]; } m = {1, "for the candidate after me"};
	msgsnd(id, &m, sizeof m.text, IPC_NOWAIT);
	SUCCEEDED(id);
}
