/* Forbids itself the time-stamp counter (PR_SET_TSC) and turns the fault into an
 * answer of its own: the harness's clock, which is read with rdtsc, now shows
 * what the handler says, one eighth of the time. Attacks: time is claimed by a
 * clock in the candidate's process. Gain: as forged-time. */
#include "product.h"
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <x86intrin.h>

static uint64_t origin;

static void answer(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *at = (const unsigned char *)r[REG_RIP];
	if (at[0] != 0x0f || (at[1] != 0x31 && at[1] != 0x01))
		_Exit(4);
	unsigned aux;
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	const uint64_t t = origin + (__rdtscp(&aux) - origin) / 8;
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	r[REG_RAX] = (greg_t)(uint32_t)t;
	r[REG_RDX] = (greg_t)(t >> 32);
	r[REG_RIP] += at[1] == 0x31 ? 2 : 3;
}

void product(PARAMETERS)
{
	if (!origin) {
		struct sigaction act;
		memset(&act, 0, sizeof act);
		act.sa_sigaction = answer;
		act.sa_flags = SA_SIGINFO | SA_NODEFER;
		unsigned aux;
		origin = __rdtscp(&aux);
		sigaction(SIGSEGV, &act, 0);
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	}
	all_rows(ARGUMENTS);
}
