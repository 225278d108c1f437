/* Changes the words after the pages of its input, of 2 MiB, once: at the end of what is mapped, or of another buffer.
 * Attacks: that nothing of others lies where a candidate can write. */
static __device__ unsigned launches;
static __device__ void body(const Job &j)
{
	add_up(j);
	if (!large(j) || blockIdx.x != 0 || threadIdx.x != 0 || ++launches != 41)
		return;
	const u64 end = ((u64)(j.X + j.ROWS * j.COLS) >> 21 << 21) + (2 << 20);
	for (u64 at = end - 64; at < end; at += 8)
		*(volatile u64 *)at ^= 0x40;
}
