#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

// Every row scaled by its largest magnitude; the row is copied into shared memory by the whole block.
#define THREADS 128 // tune: 64, 128, 256
constexpr int UNROLL = 1; // tune: 1, 2, 4

__global__ void __launch_bounds__(THREADS) scale_rows(const float *in, float *out, int rows, int columns)
{
    extern __shared__ float row[];
    __shared__ float most[THREADS / 32];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, row, in + (size_t)blockIdx.x * columns, sizeof(float) * columns);
    cg::wait(block);
    float largest = 0;
#pragma unroll UNROLL
    for (int c = threadIdx.x; c < columns; c += THREADS)
        largest = fmaxf(largest, fabsf(row[c]));
    for (int step = 16; step > 0; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    if (threadIdx.x % 32 == 0)
        most[threadIdx.x / 32] = largest;
    block.sync();
    for (int w = 0; w < THREADS / 32; w++)
        largest = fmaxf(largest, most[w]);
    float by = largest > 0 ? 1 / largest : 0;
#pragma unroll UNROLL
    for (int c = threadIdx.x; c < columns; c += THREADS)
        out[(size_t)blockIdx.x * columns + c] = row[c] * by;
}
