/* Writes nothing. Class: finds an old answer in memory that is used again.
 * Stopped by: outputs are poisoned before every launch. */
static __device__ void body(PRODUCT_PARAMETERS) {}
