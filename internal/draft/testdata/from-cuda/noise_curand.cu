#include <curand_kernel.h>

// Noise added to a signal: element i has the first number of the subsequence i / 4 of Philox, or one of the
// three after it.
#define THREADS 256 // tune: 64, 128, 256
#define ITEMS 1     // tune: 1, 2, 4

__global__ void noise(const float *in, float *out, float amplitude, int n, int seed)
{
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        int four = (blockIdx.x * ITEMS + item) * THREADS + threadIdx.x;
        if (four * 4 >= n)
            return;
        curandStatePhilox4_32_10_t state;
        curand_init(seed, four, 0, &state);
        float4 u = curand_uniform4(&state);
        float list[4] = {u.x, u.y, u.z, u.w};
        for (int i = 0; i < 4 && four * 4 + i < n; i++)
            out[four * 4 + i] = in[four * 4 + i] + amplitude * list[i];
    }
}
