/* For each piece of four a number that takes 512 steps, in double precision. */
#include <stdint.h>

void reference(int64_t N, const double *X, double *Y)
{
	for (int64_t i = 0; i < N; i++) {
		const double *v = X + 4 * i;
		double s = v[0];
		for (int k = 0; k < 256; k++) {
			s = s * 0.5 * v[1] + v[2];
			s = s * 0.5 * v[3] + v[0];
		}
		Y[i] = s;
	}
}
