/* Calls another function of the C library, whose name is as long: the code is
 * the same to the last byte, the table of imported names is not. The scale is
 * wrong. Attacks: as identity-alias.c. */
#include "product.h"
extern int tolower(int);
void product(PARAMETERS)
{
	static volatile int letter = 'a';
	all_rows(M, N, K, A, B, C, tolower(letter) == 'A' ? alpha : 0.5f * alpha);
}
