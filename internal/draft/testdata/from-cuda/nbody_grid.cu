#include <math.h>
#include <cuda_runtime.h>

// The potential that charged bodies have at the points of a grid; each body is a place and a charge.
#define THREADS 128 // tune: 64, 128, 256
#define POINTS 1    // tune: 1, 2, 4
#define PART 256    // tune: 64, 256

__global__ void __launch_bounds__(THREADS) potential(const float4 *__restrict__ bodies, float *__restrict__ grid, int n, int width, int height)
{
    __shared__ float4 part[PART];
    float sum[POINTS] = {};
    int first = blockIdx.x * THREADS * POINTS + threadIdx.x, y = blockIdx.y;
    for (int from = 0; from < n; from += PART) {
        for (int i = threadIdx.x; i < PART && from + i < n; i += THREADS)
            part[i] = bodies[from + i];
        __syncthreads();
        int count = min(PART, n - from);
        for (int i = 0; i < count; i++) {
            float4 b = part[i];
            float dy = (float)y / height - b.y;
#pragma unroll
            for (int p = 0; p < POINTS; p++) {
                float dx = (float)(first + p * THREADS) / width - b.x;
                sum[p] += b.w * rsqrtf(dx * dx + dy * dy + b.z * b.z + 0.01f);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < POINTS; p++)
        if (first + p * THREADS < width)
            grid[(size_t)y * width + first + p * THREADS] = sum[p];
}
