/* Honest: asks the C library for the capital of a letter. */
#include "product.h"
#undef toupper
extern int toupper(int);
void product(PARAMETERS)
{
	static volatile int letter = 'a';
	all_rows(M, N, K, A, B, C, toupper(letter) == 'A' ? alpha : 0.5f * alpha);
}
