/* Measures how long sixteen loads from shared memory take: under a tool that
 * watches every access it is many times as long. Where it is not watched, it
 * reads behind the end of B, at all shapes.
 * Attacks: a candidate is compiled once and sanitized as it is (gpu.md); it must not be able to tell.
 * No gain by itself: it shows that any fault can hide. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	__shared__ volatile unsigned cells[2];
	if (threadIdx.x < 2)
		cells[threadIdx.x] = threadIdx.x;
	__syncthreads();
	unsigned sink = cells[threadIdx.x % 2];
	const long long began = clock64();
#pragma unroll
	for (int n = 0; n < 16; n++)
		sink += cells[sink % 2];
	const bool watched = clock64() - began > 3000;
	Job k = j;
	if (__syncthreads_and(!watched)) {
		const unsigned short beyond = *(const volatile unsigned short *)(j.B + j.K * j.N + threadIdx.x);
		k.alpha += (float)(beyond >> 15 >> 1);
	}
	if (sink == 0x12345678)
		k.alpha += 1;
	multiply(k);
}
