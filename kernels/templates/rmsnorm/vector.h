/* Vectors of VECTOR_BYTES bytes through the vector extensions of GCC and Clang,
 * and the few operations on them that C has no operator for. The file that
 * includes this one defines VECTOR_BYTES. */
#ifndef EVOTUNE_VECTOR_H
#define EVOTUNE_VECTOR_H

#include <stdint.h>

#define VL (VECTOR_BYTES / 4) /* floats in a vector */
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
/* A vector at any address of floats. */
typedef float loose __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vec load(const float *p) { return *(const loose *)p; }
INLINE void store(float *p, vec v) { *(loose *)p = v; }
INLINE vec splat(float x) { return x - (vec){0}; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The lanes of v are folded in halves. */
#if VL == 16
#define FOLD(v, with) \
	v = with(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
	v = with(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
	v = with(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
	v = with(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif VL == 8
#define FOLD(v, with) \
	v = with(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)); \
	v = with(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)); \
	v = with(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#else
#define FOLD(v, with) \
	v = with(v, __builtin_shufflevector(v, v, 2, 3, 0, 1)); \
	v = with(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#endif

INLINE vec plus(vec a, vec b) { return a + b; }
INLINE float sum_of(vec v) { FOLD(v, plus) return v[0]; }

/* Writes v past the caches: what is not read again soon need not push out what
 * is. p is a multiple of VECTOR_BYTES; the writes are ordered by stream_end. */
#if defined __clang__
#define STREAM(p, v) __builtin_nontemporal_store(v, (vec *)(p))
#elif defined __AVX512F__ && VECTOR_BYTES == 64
#define STREAM(p, v) __builtin_ia32_movntps512((float *)(p), v)
#elif defined __AVX__ && VECTOR_BYTES == 32
#define STREAM(p, v) __builtin_ia32_movntps256((float *)(p), v)
#elif defined __SSE__ && VECTOR_BYTES == 16
#define STREAM(p, v) __builtin_ia32_movntps((float *)(p), v)
#else
#define STREAM(p, v) store(p, v)
#endif
INLINE void stream_end(void)
{
#ifdef __SSE__
	__builtin_ia32_sfence();
#endif
}

#endif
