/* Doubles a list of additions 40 times by macros: the preprocessor writes a
 * terabyte.
 * Attacks: compilers run without bounds on memory. */
#define M1(x) x + x
#define M2(x) M1(M1(M1(M1(x))))
#define M3(x) M2(M2(x))
#define M4(x) M3(M3(x))
#define M5(x) M4(M4(M2(M2(x))))

static __device__ void body(const Job &j)
{
	multiply(j);
	if (j.M == -1)
		j.C[0] = M5(M4(M2(j.alpha)));
}
