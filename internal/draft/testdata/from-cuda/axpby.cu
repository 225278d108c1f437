#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// y = alpha x + beta y, a few elements of a stride apart to a thread.
#define THREADS 256  // tune: 64, 128, 256, 512
#define ITEMS 1      // tune: 1, 2, 4, 8

#define CHECK(call)                                                    \
    do {                                                               \
        cudaError_t e = (call);                                        \
        if (e != cudaSuccess) {                                        \
            fprintf(stderr, "%s\n", cudaGetErrorString(e));            \
            exit(1);                                                   \
        }                                                              \
    } while (0)

__global__ void axpby(int n, float alpha, const float *x, float beta, const float *y, float *out)
{
    int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = first + i * THREADS;
        if (at < n)
            out[at] = alpha * x[at] + beta * y[at];
    }
}

int main()
{
    int n = 1 << 20;
    float *x, *y, *out;
    CHECK(cudaMallocManaged(&x, n * sizeof(float)));
    CHECK(cudaMallocManaged(&y, n * sizeof(float)));
    CHECK(cudaMallocManaged(&out, n * sizeof(float)));
    for (int i = 0; i < n; i++)
        x[i] = y[i] = 1.0f;
    axpby<<<(n + THREADS * ITEMS - 1) / (THREADS * ITEMS), THREADS>>>(n, 2.0f, x, 1.0f, y, out);
    CHECK(cudaDeviceSynchronize());
    printf("%f\n", out[0]);
}
