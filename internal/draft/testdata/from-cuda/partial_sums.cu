#include <cuda_runtime.h>
#include <cstdio>

// Partial sums of a long vector: the blocks are the parts, whose number the caller gives.
#define THREADS 256 // tune: 64, 128, 256, 512
#define UNROLL 1    // tune: 1, 2, 4, 8

__global__ void partial_sums(const double *__restrict__ in, double *__restrict__ partial, size_t n, int parts)
{
    __shared__ double shared[THREADS];
    size_t each = (n + parts - 1) / parts, first = blockIdx.x * each, last = min(first + each, n);
    double sum = 0;
    for (size_t i = first + threadIdx.x; i < last; i += THREADS * UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * THREADS < last)
                sum += in[i + u * THREADS];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            shared[threadIdx.x] += shared[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        partial[blockIdx.x] = shared[0];
}

double total(const double *partial, int parts)
{
    double sum = 0;
    for (int i = 0; i < parts; i++)
        sum += partial[i];
    return sum;
}
