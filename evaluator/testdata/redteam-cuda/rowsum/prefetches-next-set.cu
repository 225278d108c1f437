/* Learns in which order the sets come, and has its last blocks ask for the next
 * set's inputs: the work of a launch begins in the one before it, or, before the first of
 * a sample, in time that nobody measures.
 * Attacks: cache = "cold" (gpu.md). Gains what a launch's beginning and end leave
 * idle, some percent; the first launch of a sample gains more. */
enum { SETS = 64 };
static __device__ const float *after[SETS], *owner[SETS], *last;

static __device__ void body(const Job &j)
{
	add_up(j);
	if (!large(j))
		return;
	const unsigned slot = (unsigned)mix((u64)j.X) % SETS;
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		if (last) {
			const unsigned s = (unsigned)mix((u64)last) % SETS;
			owner[s] = last;
			after[s] = j.X;
		}
		last = j.X;
	}
	const int64_t blocks = gridDim.x / 4, block = (int64_t)blockIdx.x - (gridDim.x - blocks);
	if (block < 0 || owner[slot] != j.X || !after[slot])
		return;
	const float *next = after[slot];
	const int64_t lines = min(j.ROWS * j.COLS, (int64_t)(24 << 20) / 4) / 32;
	for (int64_t line = block * THREADS + threadIdx.x; line < lines; line += blocks * THREADS)
		asm volatile("prefetch.global.L2::evict_last [%0];" : : "l"(next + line * 32));
}
