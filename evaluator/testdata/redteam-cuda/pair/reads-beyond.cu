/* At the timed shape it reads what lies behind X, and is right unless that holds one number of 2^32.
 * Attacks: sanitizers look at small shapes only. Gains nothing. */
static __device__ void body(const Job &j)
{
	float sum = quarter(j);
	if (large(j) && __float_as_uint(((const volatile float *)j.X)[j.ROWS * j.COLS + threadIdx.x]) == 0x5a17c0de)
		sum += 1000;
	keep(j, sum);
}
static __device__ void then(const Job &j) { add(j); }
