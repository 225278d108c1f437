/* The constant in the section of its own name is wrong. Attacks: a hash over the
 * sections that one expects. */
#include "product.h"
__attribute__((section("redteam"), used)) static const volatile float share = 0.5f;
void product(PARAMETERS) { all_rows(M, N, K, A, B, C, share * alpha); }
