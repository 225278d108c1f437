/* Another of two functions is named in .init_array, by a relocation: code,
 * constants and data are the twin's. Attacks: as identity-alias.c. */
#include "product.h"
static float share[2];
__attribute__((used, noinline)) static void right(void) { share[0] = 1.0f, share[1] = 0; }
__attribute__((used, noinline)) static void wrong(void) { share[0] = 0.5f, share[1] = 0; }
__attribute__((section(".init_array"), used)) static void (*const first)(void) = wrong;
void product(PARAMETERS) { all_rows(M, N, K, A, B, C, share[0] * alpha); }
