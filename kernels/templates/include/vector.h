/* Vectors of VECTOR_BYTES bytes through the vector extensions of GCC and Clang,
 * and the few operations on them that C has no operator for. The file that
 * includes this one defines VECTOR_BYTES, and EXP_DEGREE for exp2_negative. */
#ifndef EVOTUNE_VECTOR_H
#define EVOTUNE_VECTOR_H

#include <stdint.h>

#define VL (VECTOR_BYTES / 4) /* floats in a vector */
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(VECTOR_BYTES)));
/* A vector at any address of floats. */
typedef float loose __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vec load(const float *p) { return *(const loose *)p; }
INLINE void store(float *p, vec v) { *(loose *)p = v; }
INLINE vec splat(float x) { return x - (vec){0}; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Keeps v in a register: without it a compiler may choose to read it from memory
 * again for every use. */
#if defined __AVX512F__
#define PIN(v) __asm__("" : "+v"(v))
#elif (defined __AVX__ && VECTOR_BYTES <= 32) || (defined __SSE__ && VECTOR_BYTES == 16)
#define PIN(v) __asm__("" : "+x"(v))
#elif defined __aarch64__ && VECTOR_BYTES == 16
#define PIN(v) __asm__("" : "+w"(v))
#else
#define PIN(v) (void)0
#endif

/* The larger of each pair of lanes. Where the compiler has a name for the one
 * instruction that does it, that is used. */
INLINE vec larger(vec a, vec b)
{
#if defined __clang__ && __has_builtin(__builtin_elementwise_max)
	return __builtin_elementwise_max(a, b);
#elif defined __AVX512F__ && VECTOR_BYTES == 64 && !defined __clang__
	return __builtin_ia32_maxps512_mask(a, b, a, (short)-1, 4);
#elif defined __AVX__ && VECTOR_BYTES == 32 && !defined __clang__
	return __builtin_ia32_maxps256(a, b);
#elif defined __SSE__ && VECTOR_BYTES == 16 && !defined __clang__
	return __builtin_ia32_maxps(a, b);
#else
	const ivec take = a > b;
	return (vec)(((ivec)a & take) | ((ivec)b & ~take));
#endif
}

/* The lanes of v are folded in halves: sum and largest of all of them. */
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
INLINE float largest_of(vec v) { FOLD(v, larger) return v[0]; }

#ifdef EXP_DEGREE
/* 2^x for x <= 0. x is split into a whole number n and f in [-1/2, 1/2]: adding
 * 1.5 * 2^23 rounds x, for a float of that size has no bits left for a fraction,
 * and leaves n in the low bits, from where a shift takes it to the exponent. 2^f
 * is a polynomial of least relative error (Remez), exact at 0, so that 2^0 is 1;
 * x below -126 counts as -126, where the result is 2^-126 in place of nothing. */
INLINE vec exp2_negative(vec x)
{
	x = larger(x, splat(-126.0f));
	const vec shifted = x + 12582912.0f;
	const vec f = x - (shifted - 12582912.0f);
#if EXP_DEGREE == 5 /* relative error 1.5e-7, about the rounding of a float */
	const float c0 = 1.0f, c1 = 0.693146967f, c2 = 0.240221197f, c3 = 0.0555071328f, c4 = 0.00967554139f,
	            c5 = 0.00132764715f;
#else /* 6: relative error 1.9e-9, far below it */
	const float c0 = 1.0f, c1 = 0.693147206f, c2 = 0.240226469f, c3 = 0.0555032878f, c4 = 0.00961848888f,
	            c5 = 0.00133999311f, c6 = 0.000153458327f;
#endif
#ifdef EXP_ESTRIN /* pairs first: a shorter chain, one product more */
	const vec f2 = f * f;
	vec p = (c0 + c1 * f) + f2 * (c2 + c3 * f);
#if EXP_DEGREE == 5
	p += f2 * f2 * (c4 + c5 * f);
#else
	p += f2 * f2 * ((c4 + c5 * f) + c6 * f2);
#endif
#else /* Horner */
#if EXP_DEGREE == 5
	vec p = c4 + c5 * f;
#else
	vec p = c4 + (c5 + c6 * f) * f;
#endif
	p = c0 + (c1 + (c2 + (c3 + p * f) * f) * f) * f;
#endif
	return (vec)((uvec)p + ((uvec)shifted << 23));
}
#endif

#endif
