/* Honest twin of the sums in low precision: a compensated sum. */
static __device__ void body(const Job &j)
{
	float sum = 0, lost = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = __fadd_rn(row(j)[c], -lost), next = __fadd_rn(sum, x);
		lost = __fadd_rn(__fadd_rn(next, -sum), -x);
		sum = next;
	}
	put(j, total(sum));
}
