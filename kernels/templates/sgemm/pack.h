/* Packing: a block of a matrix is copied into slivers, in the order in which
 * the microkernel will read it, so that it reads consecutive addresses and one
 * page after another. A ragged sliver is filled up with zeros: the microkernel
 * then never needs to know about edges. */
#ifndef EVOTUNE_SGEMM_PACK_H
#define EVOTUNE_SGEMM_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Slivers of `high` rows each: element (i, k) of a sliver goes to k*high + i,
 * a transposition. src has m rows of k_count elements, `stride` apart. */
static inline __attribute__((always_inline)) void pack_rows(float *restrict dst, const float *restrict src, int64_t stride,
                                                            int64_t m, int64_t k_count, int64_t high)
{
	int64_t i = 0;
	for (; i + high <= m; i += high) {
		const float *rows = src + i * stride;
		for (int64_t k = 0; k < k_count; k++)
			for (int64_t r = 0; r < high; r++)
				dst[k * high + r] = rows[r * stride + k];
		dst += high * k_count;
	}
	if (i < m)
		for (int64_t k = 0; k < k_count; k++)
			for (int64_t r = 0; r < high; r++)
				dst[k * high + r] = i + r < m ? src[(i + r) * stride + k] : 0.0f;
}

/* One ragged sliver of `high` rows that keeps their order: element (i, k) goes
 * to i*k_count + k. */
static inline __attribute__((always_inline)) void copy_rows(float *restrict dst, const float *restrict src, int64_t stride,
                                                            int64_t m, int64_t k_count, int64_t high)
{
	if (m > 0)
		for (int64_t r = 0; r < high; r++)
			for (int64_t k = 0; k < k_count; k++)
				*dst++ = r < m ? src[r * stride + k] : 0.0f;
}

/* Slivers of `wide` columns each: element (k, j) of a sliver goes to
 * k*wide + j. src has k_count rows of n elements, `stride` apart. */
static inline __attribute__((always_inline)) void pack_columns(float *restrict dst, const float *restrict src, int64_t stride,
                                                               int64_t k_count, int64_t n, int64_t wide)
{
	int64_t j = 0;
	for (; j + wide <= n; j += wide)
		for (int64_t k = 0; k < k_count; k++) {
			__builtin_memcpy(dst, src + k * stride + j, (size_t)wide * sizeof(float));
			dst += wide;
		}
	if (j < n)
		for (int64_t k = 0; k < k_count; k++)
			for (int64_t c = 0; c < wide; c++)
				*dst++ = j + c < n ? src[k * stride + j + c] : 0.0f;
}

#endif
