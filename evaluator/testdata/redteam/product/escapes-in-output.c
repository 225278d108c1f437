/* Writes escape sequences to its standard output and error in its first launch.
 * Attacks: what
 * is printed of a candidate's output. */
#include "attempt.h"

static void attempt(void)
{
	static const char text[] = "\033]0;redteam\007\033[2J\033[Hall kernels are correct\033[8m\n";
	(void)!write(1, text, sizeof text - 1);
	(void)!write(2, text, sizeof text - 1);
}
