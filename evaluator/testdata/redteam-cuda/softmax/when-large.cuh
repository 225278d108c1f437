static __device__ inline bool large(const Job &j) { return j.ROWS * j.COLS >= 1 << 22; }

/* careful is the honest answer. */
static __device__ inline void careful(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) { return __expf(x - top); });
}
