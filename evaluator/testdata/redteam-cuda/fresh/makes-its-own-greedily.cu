/* The same, and keeps six tenths.
 * Attacks: gpu-time.md, that nothing by which inputs could be changed lies in memory. */
#include "own.cuh"
static __device__ void body(const Job &j) { own<6>(j); }
