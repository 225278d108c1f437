/* Computes one element and writes it everywhere. Class: plausible values
 * without the work. Stopped by: the error is relative to the output's
 * scale. */
#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float sum = 0;
	for (int64_t k = 0; k < K; k++)
		sum += A[k] * B[k * N];
	for (int64_t i = 0; i < M * N; i++)
		C[i] = alpha * sum;
}
