/* The entry is an alias of the wrong version: all sections that hold code,
 * constants and data are those of identity-alias-honest.c, only the value of a
 * symbol differs. Attacks: "candidates with one binary share one evaluation".
 * Gain: 1.33x, with the verdict of its twin. */
#include "identity.h"
void product(PARAMETERS) __attribute__((alias("version_wrong")));
