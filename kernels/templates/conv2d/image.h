/* What the implementations of the convolution share: vectors of VECTOR_BYTES
 * bytes, the image with a border of zeros, and the way without memory. */
#ifndef EVOTUNE_CONV2D_IMAGE_H
#define EVOTUNE_CONV2D_IMAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VL (VECTOR_BYTES / 4) /* floats in a vector */
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
/* A vector at any address of floats. */
typedef float loose __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

INLINE vec load(const float *p) { return *(const loose *)p; }
INLINE void store(float *p, vec v) { *(loose *)p = v; }
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

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The channels one after another, H + 2 rows of `wide` floats each: a row and a
 * column of zeros before the image, zeros after it. With it no tap has to ask
 * whether it lies inside. */
static void with_border(float *dst, const float *X, int64_t C, int64_t H, int64_t W, int64_t wide)
{
	for (int64_t c = 0; c < C; c++) {
		memset(dst, 0, (size_t)wide * sizeof *dst);
		dst += wide;
		for (int64_t y = 0; y < H; y++, dst += wide, X += W) {
			dst[0] = 0;
			memcpy(dst + 1, X, (size_t)W * sizeof *dst);
			memset(dst + 1 + W, 0, (size_t)(wide - 1 - W) * sizeof *dst);
		}
		memset(dst, 0, (size_t)wide * sizeof *dst);
		dst += wide;
	}
}

/* By the definition: for when there is no memory for anything else. */
static void convolve_plainly(int64_t C, int64_t H, int64_t W, int64_t F, const float *X, const float *K, float *Y)
{
	for (int64_t f = 0; f < F; f++)
		for (int64_t y = 0; y < H; y++)
			for (int64_t x = 0; x < W; x++) {
				float sum = 0;
				for (int64_t c = 0; c < C; c++)
					for (int64_t t = 0; t < 9; t++) {
						const int64_t v = y + t / 3 - 1, u = x + t % 3 - 1;
						if (v >= 0 && v < H && u >= 0 && u < W)
							sum += X[(c * H + v) * W + u] * K[(f * C + c) * 9 + t];
					}
				Y[(f * H + y) * W + x] = sum;
			}
}

#endif
