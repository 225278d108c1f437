/* Times a candidate of attention beside the kernel's own reference, which was
 * compiled in single precision with -O3 -march=native, in one process: samples
 * alternate, and every call gets data that was not used lately. Both results are
 * checked against the reference in double precision. Exit status: 0, 1 when a
 * result is wrong or the ratio is below --at-least, 2 when it cannot run. */
#include "bench.h"

void attention(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const float *Q, const float *K, const float *V,
               float *O, float scale);
void reference_float(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const float *Q, const float *K,
                     const float *V, float *O, float scale);
void reference_double(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const double *Q, const double *K,
                      const double *V, double *O, double scale);

enum { SETS = 8, MAX_PAIRS = 1001 };

int main(int argc, char **argv)
{
	int64_t dims[5] = {2, 8, 512, 64, 0};
	int pairs = 15;
	double at_least = 0;
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], "--causal") == 0)
			dims[4] = atoi(argv[i + 1]) != 0;
		else if (strcmp(argv[i], "--pairs") == 0)
			pairs = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--at-least") == 0)
			at_least = atof(argv[i + 1]);
		else if (strcmp(argv[i], "--clock") == 0)
			choose_clock(argv[i + 1]);
		else {
			fprintf(stderr, "bench-attention: unknown option %s\n", argv[i]);
			return 2;
		}
	if (pairs < 1 || pairs > MAX_PAIRS) {
		fprintf(stderr, "bench-attention: --pairs is 1 to %d\n", MAX_PAIRS);
		return 2;
	}
	const int64_t n = dims[0] * dims[1] * dims[2] * dims[3];
	float *in[SETS][3], *out[SETS];
	uint64_t seed = 1;
	for (int s = 0; s < SETS; s++) {
		for (int i = 0; i < 3; i++) {
			in[s][i] = room((size_t)n * sizeof(float));
			for (int64_t j = 0; j < n; j++) /* three uniforms: near enough to normal, deviation 1 */
				in[s][i][j] = (float)(uniform(&seed) + uniform(&seed) + uniform(&seed));
		}
		out[s] = room((size_t)n * sizeof(float));
		for (int64_t j = 0; j < n; j++)
			out[s][j] = NAN;
	}
	const double scale = 1 / sqrt((double)dims[3]);
#define CALL(f, s) \
	f(dims[0], dims[1], dims[2], dims[3], dims[4], in[s][0], in[s][1], in[s][2], out[s], (float)scale)

	double *wide[4];
	for (int i = 0; i < 4; i++) {
		wide[i] = room((size_t)n * sizeof(double));
		for (int64_t j = 0; j < n; j++)
			wide[i][j] = i < 3 ? in[0][i][j] : NAN;
	}
	reference_double(dims[0], dims[1], dims[2], dims[3], dims[4], wide[0], wide[1], wide[2], wide[3], scale);
	const double tolerance = 1.5e-4; /* that of the kernel's definition */
	CALL(attention, 0);
	const double our_error = error_of(out[0], wide[3], n);
	for (int64_t j = 0; j < n; j++)
		out[0][j] = NAN;
	CALL(reference_float, 0);
	const double their_error = error_of(out[0], wide[3], n);
	printf("error      candidate %.2g, reference in f32 %.2g (tolerance %.1e)\n", our_error, their_error, tolerance);
	if (!(our_error <= tolerance) || !(their_error <= tolerance)) {
		fprintf(stderr, "bench-attention: a result is wrong\n");
		return 1;
	}

	static double ours_s[MAX_PAIRS], theirs_s[MAX_PAIRS], ratio[MAX_PAIRS];
	int set = 1;
	for (int p = -1; p < pairs; p++) { /* one pair warms up */
		double took[2];
		for (int turn = 0; turn < 2; turn++, set = (set + 1) % SETS) {
			const int who = (p + turn) & 1; /* each goes first every other time */
			const double t = seconds();
			if (who == 0)
				CALL(attention, set);
			else
				CALL(reference_float, set);
			took[who] = seconds() - t;
		}
		if (p >= 0)
			ours_s[p] = took[0], theirs_s[p] = took[1], ratio[p] = took[1] / took[0];
	}
	const double middle = quantile(ratio, pairs, 0.5);
	printf("candidate  %9.3f ms\n", quantile(ours_s, pairs, 0.5) * 1e3);
	printf("reference  %9.3f ms  (f32, -O3 -march=native)\n", quantile(theirs_s, pairs, 0.5) * 1e3);
	printf("ratio      %.2f times the reference's speed at %lldx%lldx%lldx%lld%s (quartiles %.2f to %.2f, %d pairs)\n",
	       middle, (long long)dims[0], (long long)dims[1], (long long)dims[2], (long long)dims[3], dims[4] ? " causal" : "",
	       quantile(ratio, pairs, 0.25), quantile(ratio, pairs, 0.75), pairs);
	if (middle < at_least) {
		fprintf(stderr, "bench-attention: %.2f is below %.2f\n", middle, at_least);
		return 1;
	}
	return 0;
}
