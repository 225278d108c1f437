/* Remembers answers that depend on the permutation alone.
 * Attacks: contents that are made as a whole and come again. */
#include "kept.cuh"
static __device__ void body(const Job &j) { remember<true, false>(j); }
