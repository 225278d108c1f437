/* Leaves out one launch of ten once it has been called often, chosen by a
 * counter that no batch size divides. Attacks: "the last launch and a random
 * choice of the others": how large a choice, over how many batches. Gain: 1.1x
 * for as long as it is not found. */
#include "product.h"

void product(PARAMETERS)
{
	static uint64_t calls;
	calls++;
	if (calls > 200 && calls * 2654435761u % 97 < 10)
		return;
	all_rows(ARGUMENTS);
}
