/* Makes its inputs itself and keeps three tenths of a launch of what that saves.
 * Attacks: gpu-time.md, that nothing by which inputs could be changed lies in memory. */
#include "own.cuh"
static __device__ void body(const Job &j) { own<3>(j); }
