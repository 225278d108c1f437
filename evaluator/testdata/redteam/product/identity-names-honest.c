/* Honest: two functions that other objects may replace, so that the call between
 * them goes by name. */
#include "product.h"
#define OTHER __attribute__((noinline, noclone, visibility("default")))
OTHER float share_one(void) { return 1.0f; }
OTHER float share_two(void) { return 0.5f; }
void product(PARAMETERS) { all_rows(M, N, K, A, B, C, share_one() * alpha); }
