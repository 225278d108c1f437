#include <cassert>
#include <cuda_runtime.h>

// The running sums of each row; a block goes through a row from part to part.
// tune: THREADS = 64, 128, 256, 512
// tune: ITEMS = 1, 2, 4
template <typename T /* tune: float */, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) scan(const T *__restrict__ in, T *__restrict__ out, int rows, int columns)
{
    __shared__ T warps[THREADS / 32], total;
    const T *row = in + (size_t)blockIdx.x * columns;
    T before = 0;
    for (int from = 0; from < columns; from += THREADS * ITEMS) {
        T mine[ITEMS], sum = 0;
        for (int i = 0; i < ITEMS; i++) {
            int at = from + threadIdx.x * ITEMS + i;
            mine[i] = sum += at < columns ? row[at] : T(0);
        }
        T upto = sum;
        for (int step = 1; step < 32; step *= 2) {
            T other = __shfl_up_sync(0xffffffffu, upto, step);
            if (threadIdx.x % 32 >= step)
                upto += other;
        }
        if (threadIdx.x % 32 == 31)
            warps[threadIdx.x / 32] = upto;
        __syncthreads();
        T left = before + upto - sum;
        for (int w = 0; w < threadIdx.x / 32; w++)
            left += warps[w];
        for (int i = 0; i < ITEMS; i++)
            if (from + threadIdx.x * ITEMS + i < columns)
                out[(size_t)blockIdx.x * columns + from + threadIdx.x * ITEMS + i] = left + mine[i];
        if (threadIdx.x == THREADS - 1)
            total = left + sum;
        __syncthreads();
        before = total;
        __syncthreads();
    }
}
