/* The same, and keeps six tenths.
 * Attacks: gpu-time.md, "tables are rewritten before each use". */
#include "own.cuh"
static __device__ void body(const Job &j) { own<6>(j); }
