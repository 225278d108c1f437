#include <cuda_runtime.h>

#define THREADS 128 // tune: 64, 128, 256, 512
#define LANES 32    // tune: 4, 8, 16, 32

extern "C" __global__ void __launch_bounds__(THREADS) gemv(const float *a, const float *x, float *y, int m, int n);
static __device__ float across(float sum);
void gemv_on(cudaStream_t stream, const float *a, const float *x, float *y, int m, int n);

void gemv_on(cudaStream_t stream, const float *a, const float *x, float *y, int m, int n)
{
    gemv<<<(m * LANES + THREADS - 1) / THREADS, THREADS, 0, stream>>>(a, x, y, m, n);
}

// A matrix times a vector; LANES threads have a row.
extern "C" __global__ void __launch_bounds__(THREADS) gemv(const float *a, const float *x, float *y, int m, int n)
{
    int row = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    float sum = 0;
    if (row < m)
        for (int k = lane; k < n; k += LANES)
            sum += a[(size_t)row * n + k] * x[k];
    sum = across(sum);
    if (row < m && lane == 0)
        y[row] = sum;
}

static __device__ float across(float sum)
{
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}
