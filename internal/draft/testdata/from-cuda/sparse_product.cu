#include <cstdint>

// A sparse matrix by rows times a vector; LANES threads add up a row.
#define THREADS 128 // tune: 64, 128, 256
#define LANES 8     // tune: 1, 2, 4, 8, 16, 32

__global__ void spmv(int rows, int columns, int entries, const int *__restrict__ starts, const int32_t *__restrict__ index,
                     const float *__restrict__ values, const float *__restrict__ x, float *__restrict__ y)
{
    int row = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    float sum = 0;
    if (row < rows)
        for (int i = starts[row] + lane; i < starts[row + 1]; i += LANES)
            sum += values[i] * x[index[i]];
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step, LANES);
    if (row < rows && lane == 0)
        y[row] = sum;
}
