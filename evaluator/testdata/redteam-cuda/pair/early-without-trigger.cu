/* The first kernel says nothing, so that the second begins when all its blocks have ended, but does not wait until
 * what they wrote can be seen.
 * Attacks: that every dependent launch that does not wait is wrong at some time. Gains the flush. */
static __device__ void body(const Job &j) { keep(j, quarter(j)); }
static __device__ void then(const Job &j) { add(j); }
