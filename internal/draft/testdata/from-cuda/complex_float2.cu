#include <cuda_runtime.h>
#include <stdio.h>

// Complex numbers multiplied and scaled, as after a Fourier transform.
#define THREADS 256   // tune: 64, 128, 256, 512
#define ITEMS 1       // tune: 1, 2, 4
#define STREAM false  // tune: false, true

typedef float2 complex_t;

static __device__ __host__ inline float2 multiplied(float2 a, float2 b, float scale)
{
    float2 c;
    c.x = scale * (a.x * b.x - a.y * b.y);
    c.y = scale * (a.x * b.y + a.y * b.x);
    return c;
}

__global__ void convolve(const float2 *a, const float2 *b, float2 *c, int size, float scale)
{
    int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = first + i * THREADS;
        if (at < size) {
            float2 product = multiplied(a[at], b[at], scale);
            if (STREAM)
                __stcs(&c[at], product);
            else
                c[at] = product;
        }
    }
}
