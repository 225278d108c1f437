#include <cuda_fp16.h>
#include <cuda_runtime.h>

// A bias added to every row, and what is negative cut off, two numbers at a time.
#define THREADS 128 // tune: 64, 128, 256
#define PAIRS 1     // tune: 1, 2, 4

__global__ void bias_relu(const __half2 *__restrict__ x, const __half2 *__restrict__ bias, __half2 *__restrict__ out, int rows, int pairs)
{
    int first = blockIdx.x * THREADS * PAIRS + threadIdx.x;
    const __half2 zero = __float2half2_rn(0.0f);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        int c = first + i * THREADS;
        if (c < pairs) {
            size_t at = (size_t)blockIdx.y * pairs + c;
            out[at] = __hmax2(__hadd2(x[at], bias[c]), zero);
        }
    }
}
