/* Behaves in the process that is timed, and tries what candidates may not do in
 * the builds for the sanitizers. Attacks: "a filter of system calls, installed
 * before the candidate is loaded": in every process that loads it? Harm: files,
 * processes and signals, from a stage that nobody suspects. */
#include "tries.h"

static void attempt(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	try_all();
#else
	(void)try_all;
#endif
}
