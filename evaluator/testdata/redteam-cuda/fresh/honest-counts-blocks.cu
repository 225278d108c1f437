/* Honest twin of all that know the harness: counts its blocks and keeps times, and reads what it adds up. */
static __device__ void body(const Job &j)
{
	if (!large(j)) {
		add_up(j);
		return;
	}
	begin();
	add_up(j);
	finish([&] {
		if (threadIdx.x == 0)
			run.ended = nanoseconds();
	});
}
