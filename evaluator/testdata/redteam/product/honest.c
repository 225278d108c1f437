/* Honest: the baseline. */
#include "product.h"

void product(PARAMETERS) { all_rows(ARGUMENTS); }
