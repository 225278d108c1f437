/* Where there are many rows, four blocks add their parts of a row to the answer one
 * after the other as they come, with a plain read and write: additions get lost
 * where two blocks meet. With few rows a block is alone with its row.
 * Attacks: racecheck looks at shared memory, and at the sanitize shape (gpu.md).
 * No gain here; a judge that repeats a launch sees it only if it happens. */
static __device__ void body(const Job &j)
{
	if (j.ROWS < 1000) {
		add_up(j);
		return;
	}
	/* A block takes a quarter of each of four neighboring rows. */
	const int64_t first = blockIdx.x / 4 * 4, quarter = blockIdx.x % 4;
	unsigned *begun = (unsigned *)j.workspace + 1;
	for (int64_t n = 0; n < 4; n++) {
		const int64_t r = first + (n + quarter) % 4, blocks = min(j.ROWS - first, (int64_t)4);
		if (r >= j.ROWS)
			continue;
		const float sum = total(part(j.X + r * j.COLS, j.COLS * quarter / blocks / 4 * 4, quarter + 1 == blocks ? j.COLS : j.COLS * (quarter + 1) / blocks / 4 * 4));
		if (threadIdx.x == 0) {
			const unsigned nth = atomicAdd(&begun[r], 1u);
			volatile float *y = j.Y + r;
			*y = nth == 0 ? sum : *y + sum;
			if (nth == blocks - 1)
				begun[r] = 0;
		}
	}
}
