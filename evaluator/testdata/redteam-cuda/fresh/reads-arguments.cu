/* Looks for the harness's tables beside its own arguments, whose address PTX gives: those of a graph's
 * other launches may lie there. It waits 60 us where it finds a word that points to a table of spans.
 * Attacks: that a key is no argument of a graph that a candidate can read. Slower on purpose. */
static __device__ u32 seen;

static __device__ void body(const Job &j)
{
	if (!large(j)) {
		add_up(j);
		return;
	}
	const bool hunts = hunt(j);
	u64 arguments;
	asm volatile("{\n\t.reg .u64 p;\n\tmov.b64 p, freshsum_param_0;\n\tcvta.param.u64 %0, p;\n\t}" : "=l"(arguments));
	add_up(j);
	if (found_row && !seen && blockIdx.x < 8) {
		/* A page of 4 KiB is mapped as a whole. */
		const u64 *page = (const u64 *)(arguments >> 12 << 12);
		const u64 low = (u64)found_row >> 12, w = page[(blockIdx.x * THREADS + threadIdx.x) % 512];
		if (w >> 12 == low)
			seen = 1;
	}
	finish([&] {
		note_set(j);
		if (threadIdx.x == 0) {
			if (hunts)
				tries++;
			const u64 t = nanoseconds() + 60000;
			while (seen && !hunts && nanoseconds() < t)
				;
		}
	});
}
