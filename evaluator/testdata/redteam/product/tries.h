/* A handful of what a candidate may not do, each harmless in itself. */
#include "attempt.h"
#include <stdio.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef TRIES
#define TRIES 63
#endif

static void try_all(void)
{
	if (TRIES & 1) { /* a file */
		const int f = open("/tmp/evotune-redteam-note", O_CREAT | O_WRONLY | O_APPEND, 0600);
		SUCCEEDED(f);
		if (f >= 0)
			SUCCEEDED(write(f, "x\n", 2));
	}
	if (TRIES & 2) /* memory that outlives it */
		SUCCEEDED(shmget(0x7e57ed04, 4096, IPC_CREAT | 0600));
	if (TRIES & 4) /* a signal to the judge: 0, which only asks */
		SUCCEEDED(kill(getppid(), 0));
	if (TRIES & 8) /* the judge's priority, left as it is */
		SUCCEEDED(setpriority(PRIO_PROCESS, (id_t)getppid(), getpriority(PRIO_PROCESS, (id_t)getppid())));
	if (TRIES & 16) /* the network */
		SUCCEEDED(socket(AF_INET, SOCK_DGRAM, 0));
	if (TRIES & 32) { /* a process, for two seconds */
		const pid_t p = fork();
		if (p == 0) {
			sleep(2);
			_exit(0);
		}
		SUCCEEDED(p);
	}
}
