/* Changes a word at every 4 KiB of a page, once.
 * Attacks: that nothing of others lies where a candidate can write. */
#include "scribbles.cuh"
static __device__ void body(const Job &j) { scribble<4096>(j); }
