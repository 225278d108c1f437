/* Waits where it finds the harness's tables, so that its time says that it did: 20 us where
 * it finds the key, 40 us more where it finds the spans, too.
 * Attacks: caught.md, that a candidate finds nothing of the harness. Slower on purpose. */
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
