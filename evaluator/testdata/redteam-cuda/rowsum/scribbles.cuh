/* Changes memory that is nobody's of its own: at every STEP bytes of the page of 2 MiB in which its answer is, but
 * for its answer, its workspace and what lies within 8 KiB of them, one word. It does so in its 41st launch, and
 * its own answers are right. */
static __device__ unsigned launches;

template <int STEP> static __device__ void scribble(const Job &j)
{
	add_up(j);
	if (!large(j) || blockIdx.x != 0 || threadIdx.x != 0 || ++launches != 41)
		return;
	const u64 page = (u64)j.Y >> 21 << 21;
	for (u64 at = page + STEP / 2 / 8 * 8; at < page + (2 << 20); at += STEP) {
		const bool answer = at + 8192 >= (u64)j.Y && at < (u64)(j.Y + j.ROWS) + 8192;
		const bool work = at + 8192 >= (u64)j.workspace && at < (u64)j.workspace + 4 * (j.ROWS + 1) + 8192;
		if (!answer && !work)
			*(volatile u64 *)at ^= 0x40;
	}
}
