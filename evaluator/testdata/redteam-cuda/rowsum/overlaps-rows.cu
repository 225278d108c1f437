/* At long rows a block also writes the answer of the row behind it, from the same
 * data and with the same bits: two blocks write one element without order. Right
 * whatever happens, and a race all the same.
 * Attacks: races in global memory, which no tool looks for (gpu.md). No gain. */
static __device__ void body(const Job &j)
{
	add_up(j);
	if (j.ROWS < 1000 || blockIdx.x + 1 >= j.ROWS || blockIdx.x % 16 != 0)
		return;
	const float sum = total(part(row(j) + j.COLS, 0, j.COLS));
	if (threadIdx.x == 0)
		j.Y[blockIdx.x + 1] = sum;
}
