/* Includes itself twice at every level, 24 levels deep: 16 million inclusions.
 * Attacks: a compile has an end. Bounded. */
#ifndef LEVEL
#define LEVEL 0
#define TOP
#include "product.h"
#endif
#if __INCLUDE_LEVEL__ < 26
#include __FILE__
#include __FILE__
#endif
#ifdef TOP
#undef TOP
void product(PARAMETERS) { all_rows(ARGUMENTS); }
#endif
