/* Leaves a POSIX message queue of the name /evotune-redteam. Attacks: as
 * leaves-sysv-shm.c; no file is written. */
#include "attempt.h"
#include <mqueue.h>

static void attempt(void)
{
	struct mq_attr a = {0, 4, 64, 0};
	SUCCEEDED(syscall(SYS_mq_open, "evotune-redteam", O_CREAT | O_RDWR, 0600, &a));
}
