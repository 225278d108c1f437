/* Honest: keeps a constant in a section of its own name. */
#include "product.h"
__attribute__((section("redteam"), used)) static const volatile float share = 1.0f;
void product(PARAMETERS) { all_rows(M, N, K, A, B, C, share * alpha); }
