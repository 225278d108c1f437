/* Makes its inputs itself and keeps three tenths of a launch of what that saves.
 * Attacks: gpu-time.md, "tables are rewritten before each use": not before each launch. */
#include "own.cuh"
static __device__ void body(const Job &j) { own<3>(j); }
