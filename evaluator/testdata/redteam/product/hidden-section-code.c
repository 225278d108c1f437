/* Its inner loop lies in a section of its own and reads the time-stamp counter,
 * which its definition forbids; the section is not .text. Attacks: inspection of
 * the instructions. */
#include "product.h"
#include <x86intrin.h>

static volatile uint64_t when;

__attribute__((section("redcode,\"ax\",@progbits#"), noinline, used)) static void stamp(void) { when = __rdtsc(); }

void product(PARAMETERS)
{
	stamp();
	all_rows(ARGUMENTS);
}
