#include <cmath>
#include <vector>
#include <cuda_runtime.h>

// GroupNorm of n images with 32 groups of channels; a block normalizes a group of an image.
#define GROUPS 32

template <int THREADS>
__device__ float across(float sum, float *shared)
{
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < THREADS / 32; w++)
        sum += shared[w];
    return sum;
}

// tune: THREADS = 128, 256, 512
// tune: UNROLL = 1, 2, 4
template <int THREADS, int UNROLL>
__global__ void __launch_bounds__(THREADS) groupnorm(const float *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
                                                     float *__restrict__ out, float eps, int n, int channels, int pixels)
{
    __shared__ float shared[THREADS / 32];
    int each = channels / GROUPS, size = each * pixels, group = blockIdx.x % GROUPS;
    const float *in = x + (size_t)blockIdx.x * size;
    float sum = 0, square = 0;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < size; i += THREADS)
        sum += in[i];
    float mean = across<THREADS>(sum, shared) / size;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < size; i += THREADS)
        square += (in[i] - mean) * (in[i] - mean);
    float scale = rsqrtf(across<THREADS>(square, shared) / size + eps);
    for (int i = threadIdx.x; i < size; i += THREADS) {
        int c = group * each + i / pixels;
        out[(size_t)blockIdx.x * size + i] = (in[i] - mean) * scale * weight[c] + bias[c];
    }
}
