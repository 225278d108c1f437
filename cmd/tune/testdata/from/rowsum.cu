// The weighted sum of each row, as a template over the type and the sizes of a block.
template <typename T>
__device__ T across(T sum)
{
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    return sum;
}

// tune: T = float
// tune: THREADS = 64, 128, 256
template <typename T, int THREADS, int ITEMS /* tune: 1, 2, 4 */, bool STREAM = false> // tune: STREAM = true, false
__global__ void __launch_bounds__(THREADS) rowsum(const T *__restrict__ x, const T *__restrict__ weights, T *__restrict__ sums, T scale, int rows, int columns)
{
    __shared__ T parts[THREADS / 32];
    const T *row = x + (size_t)blockIdx.x * columns;
    T local[ITEMS] = {{}};
    for (int c = threadIdx.x; c < columns; c += THREADS * ITEMS)
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            if (c + i * THREADS < columns)
                local[i] += (STREAM ? __ldcs(row + c + i * THREADS) : row[c + i * THREADS]) * weights[c + i * THREADS];
    T sum = 0;
    for (int i = 0; i < ITEMS; i++)
        sum += local[i];
    sum = across(sum);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < THREADS / 32; i++)
            sum += parts[i];
        sums[blockIdx.x] = scale * sum;
    }
}
