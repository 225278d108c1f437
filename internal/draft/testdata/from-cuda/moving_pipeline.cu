#include <cuda/pipeline>
#include <cooperative_groups.h>

// The difference of neighbors in each row; the next part of a row is copied while one is computed.
#define THREADS 128 // tune: 64, 128, 256
#define STAGES 2    // tune: 2, 3, 4

__global__ void __launch_bounds__(THREADS) differences(const float *__restrict__ in, float *__restrict__ out, int rows, int columns)
{
    __shared__ float parts[STAGES][THREADS + 1];
    auto pipe = cuda::make_pipeline();
    const float *row = in + (size_t)blockIdx.x * columns;
    int count = (columns + THREADS - 1) / THREADS, filled = 0;
    auto fill = [&](int part) {
        pipe.producer_acquire();
        int at = part * THREADS + threadIdx.x;
        if (part < count) {
            if (at < columns)
                cuda::memcpy_async(&parts[part % STAGES][threadIdx.x], row + at, sizeof(float), pipe);
            if (threadIdx.x == 0 && (part + 1) * THREADS < columns)
                cuda::memcpy_async(&parts[part % STAGES][THREADS], row + (part + 1) * THREADS, sizeof(float), pipe);
        }
        pipe.producer_commit();
    };
    for (; filled < STAGES - 1; filled++)
        fill(filled);
    for (int part = 0; part < count; part++, filled++) {
        fill(filled);
        cuda::pipeline_consumer_wait_prior<STAGES - 1>(pipe);
        __syncthreads();
        int at = part * THREADS + threadIdx.x;
        const float *have = parts[part % STAGES] + threadIdx.x;
        if (at < columns)
            out[(size_t)blockIdx.x * columns + at] = at + 1 < columns ? have[1] - have[0] : -have[0];
        __syncthreads();
        pipe.consumer_release();
    }
}
