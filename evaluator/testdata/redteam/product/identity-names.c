/* The names of the two functions are exchanged: the code is the same to the last
 * byte, the symbols' values are not. Attacks: as identity-alias.c. */
#include "product.h"
#define OTHER __attribute__((noinline, noclone, visibility("default")))
OTHER float share_two(void) { return 1.0f; }
OTHER float share_one(void) { return 0.5f; }
void product(PARAMETERS) { all_rows(M, N, K, A, B, C, share_one() * alpha); }
