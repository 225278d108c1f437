#include <stdint.h>
#include <cuda_runtime.h>

// The bucket of each key, by a hash that multiplies and shifts.
#define THREADS 256 // tune: 64, 128, 256
#define ITEMS 1     // tune: 1, 2, 4, 8

static __device__ __forceinline__ uint32_t mixed(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

__global__ void buckets(const uint32_t *__restrict__ keys, uint32_t *__restrict__ out, unsigned n)
{
    unsigned first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
#pragma unroll
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned at = first + i * THREADS;
        if (at < n)
            out[at] = mixed(keys[at]) >> 12;
    }
}
