#include <cuda_runtime.h>
#include <stdio.h>

// How often each byte occurs, added to the counts so far.
#define THREADS 256 // tune: 128, 256, 512
#define COPIES 1    // tune: 1, 2, 4
#define ITEMS 16    // tune: 4, 16, 64

__global__ void histogram(const unsigned char *__restrict__ bytes, unsigned *counts, int n)
{
    __shared__ unsigned local[COPIES][256];
    for (int i = threadIdx.x; i < COPIES * 256; i += THREADS)
        local[i / 256][i % 256] = 0;
    __syncthreads();
    int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
    for (int i = 0; i < ITEMS; i++)
        if (first + i * THREADS < n)
            atomicAdd(&local[threadIdx.x % COPIES][bytes[first + i * THREADS]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += THREADS) {
        unsigned sum = 0;
        for (int c = 0; c < COPIES; c++)
            sum += local[c][i];
        if (sum > 0)
            atomicAdd(&counts[i], sum);
    }
}
