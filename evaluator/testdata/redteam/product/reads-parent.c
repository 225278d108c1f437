/* Reads the memory of the process that started it with process_vm_readv, where
 * the reference's outputs may lie. Attacks: memory that the candidate cannot
 * reach. */
#include "attempt.h"
#include <sys/uio.h>

static void attempt(void)
{
	char word[8];
	struct iovec here = {word, 8}, there = {(void *)0x400000, 8};
	SUCCEEDED(process_vm_readv(getppid(), &here, 1, &there, 1, 0));
}
