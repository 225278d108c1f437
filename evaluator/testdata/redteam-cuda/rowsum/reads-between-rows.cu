/* Reads up to three elements behind the end of X where COLS is no multiple of four
 * and rows are many: whole vectors, of which it takes what belongs to it. The shape
 * of the sanitizers has rows of four.
 * Attacks: the guards are memory that can be read, and memcheck looks at one shape
 * (gpu.md). Gains the loop over tails. */
static __device__ void body(const Job &j)
{
	if (j.ROWS * j.COLS < 30000) {
		add_up(j);
		return;
	}
	/* Vectors of the whole matrix that touch this row. */
	const int64_t from = (int64_t)blockIdx.x * j.COLS, to = from + j.COLS;
	float sum = 0;
	for (int64_t v = from / 4 + threadIdx.x; v * 4 < to; v += THREADS) {
		const float4 x = *(const float4 *)(j.X + v * 4);
		const float all[4] = {x.x, x.y, x.z, x.w};
		for (int k = 0; k < 4; k++)
			if (v * 4 + k >= from && v * 4 + k < to)
				sum += all[k];
	}
	put(j, total(sum));
}
