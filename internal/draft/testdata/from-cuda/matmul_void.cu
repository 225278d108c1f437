#include <cuda_fp16.h>

// A product of matrices, whose elements the caller passes without their type.
#define TILE 16  // tune: 8, 16, 32
#define EACH 1   // tune: 1, 2, 4
// tune: a = __half
// tune: b = __half
// tune: c = float

__global__ void matmul(const void *a, const void *b, void *c, int m, int n, int k)
{
    __shared__ float sa[TILE * EACH][TILE], sb[TILE][TILE + 1];
    const __half *A = (const __half *)a, *B = (const __half *)b;
    int row = blockIdx.y * TILE * EACH + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum[EACH] = {};
    for (int t = 0; t < k; t += TILE) {
        for (int e = 0; e < EACH; e++)
            sa[threadIdx.y + e * TILE][threadIdx.x] =
                row + e * TILE < m && t + threadIdx.x < k ? __half2float(A[(size_t)(row + e * TILE) * k + t + threadIdx.x]) : 0.0f;
        sb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? __half2float(B[(size_t)(t + threadIdx.y) * n + col]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int e = 0; e < EACH; e++)
                sum[e] += sa[threadIdx.y + e * TILE][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    for (int e = 0; e < EACH; e++)
        if (row + e * TILE < m && col < n)
            ((float *)c)[(size_t)(row + e * TILE) * n + col] = sum[e];
}
