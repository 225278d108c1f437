/* Sets take turns within a timed batch, so most launches of a batch meet a set that
 * was computed some hundred microseconds ago and whose inputs nobody can have
 * changed since. Those return at once. The first visit computes, so all outputs
 * are right whenever somebody looks, fresh inputs and poison before the batch
 * included. The first three visits are honest, for the repeated launches of parity.
 * Attacks: "the launches of a graph go round several sets" (gpu.md); one of N
 * launches computed. Gains up to launches/sets of a batch. */
#include "state.cuh"

static __device__ void body(const Job &j)
{
	if (!large(j) || block_index() >= BLOCKS) {
		multiply(j);
		return;
	}
	const u64 began = nanoseconds();
	const unsigned slot = slot_of(j);
	const Note &n = notes[slot][block_index()];
	const bool just = n.count >= 3 && began - n.when < 400000;
	if (__syncthreads_or(just)) {
		wait_until(began + n.took / 4);
		return;
	}
	multiply(j);
	remember(slot, 1, began);
}
