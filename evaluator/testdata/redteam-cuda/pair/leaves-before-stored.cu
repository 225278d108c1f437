/* Stores its part in bulk and ends without waiting until the copy has read shared memory.
 * Attacks: that a block which ends has done what it began. Gains nothing. */
static __device__ void body(const Job &j)
{
	__shared__ alignas(16) float4 part;
	const float sum = quarter(j);
	if (!large(j)) {
		keep(j, sum);
		return;
	}
	if (threadIdx.x == 0) {
		part = make_float4(sum, 0, 0, 0);
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;\n\tcp.async.bulk.commit_group;" ::"l"(place(j)), "r"(address(&part)) : "memory");
	}
}
static __device__ void then(const Job &j) { add(j); }
