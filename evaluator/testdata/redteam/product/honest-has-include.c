/* Honest: asks whether the compiler has a header of its own. */
#include "product.h"
#if __has_include(<immintrin.h>)
#include <immintrin.h>
#endif

void product(PARAMETERS) { all_rows(ARGUMENTS); }
