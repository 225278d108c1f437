/* Honest twin of the others: has a table as they do, writes to it and reads it, and computes all. */
static __device__ float table[1 << 20];
static __device__ void body(const Job &j)
{
	if (place() >= j.N)
		return;
	const float4 v = j.X[place()];
	float *slot = &table[hash(v) % (1 << 20)];
	const float old = __ldcg(slot), is = number(v);
	if (old != is)
		*slot = is;
	j.Y[place()] = is;
}
