/* Attention of one query a head over the tokens of a paged cache, in double precision. A sequence
 * without tokens has zeros. */
#include <math.h>
#include <stdint.h>

static double score(int64_t D, const double *q, const double *k)
{
	double sum = 0;
	for (int64_t d = 0; d < D; d++)
		sum += q[d] * k[d];
	return sum;
}

void reference(int64_t B, int64_t HQ, int64_t HKV, int64_t D, int64_t PAGES, int64_t PAGE, const double *Q, const double *K,
               const double *V, const double *table, const double *lengths, double *O, double scale)
{
	for (int64_t b = 0; b < B; b++)
		for (int64_t h = 0; h < HQ; h++) {
			const double *q = Q + (b * HQ + h) * D;
			double *o = O + (b * HQ + h) * D;
			const int64_t tokens = (int64_t)lengths[b], kv = h / (HQ / HKV);
			double highest = -INFINITY, sum = 0;
#define AT(t) ((((int64_t)table[b * PAGES + (t) / PAGE] * PAGE + (t) % PAGE) * HKV + kv) * D)
			for (int64_t t = 0; t < tokens; t++)
				highest = fmax(highest, scale * score(D, q, K + AT(t)));
			for (int64_t d = 0; d < D; d++)
				o[d] = 0;
			for (int64_t t = 0; t < tokens; t++) {
				const double weight = exp(scale * score(D, q, K + AT(t)) - highest);
				sum += weight;
				for (int64_t d = 0; d < D; d++)
					o[d] += weight * V[AT(t) + d];
			}
			for (int64_t d = 0; d < D && tokens > 0; d++)
				o[d] /= sum;
		}
}
