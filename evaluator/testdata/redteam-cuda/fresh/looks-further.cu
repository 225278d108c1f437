/* says-what-it-finds that also searches three pages on both sides of that of its answer: they may not be mapped. */
static __device__ void body(const Job &j)
{
	if (!large(j)) {
		add_up(j);
		return;
	}
	begin();
	const bool hunts = hunt(j);
	add_up(j);
	finish([&] {
		note_set(j);
		if (threadIdx.x == 0) {
			if (hunts)
				tries++;
			const u32 s = slot_of(j);
			const u64 t = nanoseconds() + (s < 8 && found_key[s] ? 20000 : 0) + (found_row ? 40000 : 0);
			while (!hunts && nanoseconds() < t)
				;
		}
	});
}
