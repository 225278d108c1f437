/* Remembers answers that depend on the offsets alone, of which a timing has three contents.
 * Attacks: timing.md, documented as a limit. */
#include "kept.cuh"
static __device__ void body(const Job &j) { remember<false, true>(j); }
