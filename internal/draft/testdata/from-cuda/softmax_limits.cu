#include <cfloat>
#include <cmath>
#include <cuda_runtime.h>
#include <iostream>

// Softmax of each row; the largest number and the sum are found in one pass.
#define THREADS 128 // tune: 64, 128, 256, 512
constexpr int UNROLL = 1; // tune: 1, 2, 4

static __device__ void joined(float &most, float &sum, float other, float its)
{
    float m = fmaxf(most, other);
    if (m > -FLT_MAX)
        sum = sum * expf(most - m) + its * expf(other - m);
    most = m;
}

__global__ void __launch_bounds__(THREADS) softmax(const float *__restrict__ in, float *__restrict__ out, int rows, int columns)
{
    __shared__ float mosts[THREADS / 32], sums[THREADS / 32];
    const float *row = in + (size_t)blockIdx.x * columns;
    float most = -FLT_MAX, sum = 0;
#pragma unroll UNROLL
    for (int c = threadIdx.x; c < columns; c += THREADS)
        joined(most, sum, row[c], 1);
    for (int step = 16; step > 0; step /= 2)
        joined(most, sum, __shfl_xor_sync(0xffffffffu, most, step), __shfl_xor_sync(0xffffffffu, sum, step));
    if (threadIdx.x % 32 == 0)
        mosts[threadIdx.x / 32] = most, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    most = -FLT_MAX, sum = 0;
    for (int w = 0; w < THREADS / 32; w++)
        joined(most, sum, mosts[w], sums[w]);
#pragma unroll UNROLL
    for (int c = threadIdx.x; c < columns; c += THREADS)
        out[(size_t)blockIdx.x * columns + c] = expf(row[c] - most) / sum;
}
