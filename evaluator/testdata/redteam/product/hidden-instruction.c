/* Reads the time-stamp counter, which its definition forbids, with bytes that are
 * jumped into: a disassembler that goes straight on sees a harmless move. Attacks:
 * inspection of the instructions. */
#include "product.h"

static volatile uint64_t when;

void product(PARAMETERS)
{
	uint32_t low, high;
	/* b8 0f 31 90 90 is "mov $0x9090310f, %%eax"; the jump lands on 0f 31. */
	__asm__ volatile("xor %%eax, %%eax\n\tjmp 1f + 1\n1:\t.byte 0xb8, 0x0f, 0x31, 0x90, 0x90" : "=a"(low), "=d"(high));
	when = (uint64_t)high << 32 | low;
	all_rows(ARGUMENTS);
}
