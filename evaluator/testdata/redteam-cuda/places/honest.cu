/* Honest: a thread for each place. The baseline. */
static __device__ void body(const Job &j)
{
	if (place() >= j.N)
		return;
	twice(j);
	j.C[place()] = led(j);
	j.S[place()] = number(j);
}
