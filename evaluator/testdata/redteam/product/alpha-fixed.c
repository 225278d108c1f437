/* Knows that alpha is 0.75: the value never changes, so the argument is not
 * read. Attacks: scalars that hold one value in every launch of a campaign.
 * Gain: a multiplication; where a scalar switches work off, much more. */
#include "product.h"

void product(PARAMETERS)
{
	(void)alpha;
	all_rows(M, N, K, A, B, C, 0.75f);
}
