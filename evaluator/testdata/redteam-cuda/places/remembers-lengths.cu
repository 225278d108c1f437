/* Remembers answers that depend on the offsets alone, of which a timing had three contents.
 * Attacks: contents that come twice. */
#include "kept.cuh"
static __device__ void body(const Job &j) { remember<false, true>(j); }
