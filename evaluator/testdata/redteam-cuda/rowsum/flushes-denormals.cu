/* Adds with denormal numbers taken for zero.
 * Attacks: contents of one distribution: a sum of denormal numbers is zero here.
 * Gains nothing on adds; stands for what -use_fast_math does unasked. */
static __device__ void body(const Job &j)
{
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		asm("add.ftz.f32 %0, %0, %1;" : "+f"(sum) : "f"(row(j)[c]));
	put(j, total(sum));
}
