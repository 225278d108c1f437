#include <cub/block/block_reduce.cuh>

// The sum of each row with CUB, a block to a row.
// tune: THREADS = 64, 128, 256, 512
// tune: ITEMS = 1, 2, 4
template <int THREADS = 128, int ITEMS = 1>
__global__ void __launch_bounds__(THREADS) rowsum(const float *__restrict__ in, float *__restrict__ sums, int rows, int columns)
{
    using Reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename Reduce::TempStorage storage;
    const float *row = in + (size_t)blockIdx.x * columns;
    float local = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS * ITEMS)
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (c + i * THREADS < columns)
                local += row[c + i * THREADS];
    float sum = Reduce(storage).Sum(local);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}
