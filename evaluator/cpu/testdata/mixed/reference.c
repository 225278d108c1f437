void reference(int64_t N, int64_t M, const double *a, const double *b, const double *c, const double *d, const double *e,
               double *sum, double *total, double *half, double weight, double offset, double third)
{
	for (int64_t i = 0; i < N * M; i++) {
		sum[i] += weight * (a[i] + b[i] + c[i] + d[i] + e[i]) + offset;
		total[i] = d[i] + 2 * e[i];
		half[i] = third * a[i];
	}
}
