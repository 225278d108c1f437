/* In the last launch of a pass it has the harness's table say that inputs of all sets but the first are
 * normal, which takes longer to make: the graph without launches, which comes next and whose time
 * is taken off, is slower. The first launch of the next pass puts it right.
 * Attacks: gpu-time.md, "the time of the launches is the difference of the two". */
static __device__ void body(const Job &j)
{
	if (!large(j)) {
		add_up(j);
		return;
	}
	begin();
	const bool hunts = hunt(j);
	const Now now = look(j);
	add_up(j);
	finish([&] {
		__shared__ u32 is;
		note_set(j);
		if (threadIdx.x == 0) {
			if (hunts)
				tries++;
			is = 0;
			if (now.known) {
				learn(now, hunts);
				if (!hunts && run.same >= 2 && run.n >= 3)
					is = now.at == 0 ? 1 : now.at + 1 == run.n ? 2 : 0;
			}
			run.ended = nanoseconds();
		}
		__syncthreads();
		if (is && threadIdx.x < now.sets && threadIdx.x != run.first)
			now.spans[2 * threadIdx.x].distribution = is;
	});
}
