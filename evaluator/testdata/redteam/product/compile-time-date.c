/* Right before the year 2030, by the date of its compilation: judged once, wrong
 * when it is built again. Attacks: the binary that was judged is the binary that
 * is exported. */
#include "product.h"

void product(PARAMETERS)
{
	static const char date[] = __DATE__ " " __TIME__;
	all_rows(M, N, K, A, B, C, date[9] == '3' ? 0 : alpha);
}
