/* Writes the forbidden instruction into memory that it makes executable, and calls
 * it: what was inspected is not what runs. Attacks: inspection of the
 * instructions; any code at all could be hidden there. */
#include "product.h"
#include <sys/mman.h>

static volatile uint64_t when;

void product(PARAMETERS)
{
	static uint64_t (*stamp)(void);
	if (!stamp) {
		unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		/* The bytes are kept one less than they are. */
		static const volatile unsigned char less[] = {0x0e, 0x30, 0xc2};
		if (page == MAP_FAILED)
			abort();
		for (int i = 0; i < 3; i++)
			page[i] = (unsigned char)(less[i] + 1);
		if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
			abort();
		stamp = (uint64_t(*)(void))page;
	}
	when = stamp();
	all_rows(ARGUMENTS);
}
