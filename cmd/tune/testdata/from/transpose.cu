// The transpose of a matrix, through tiles of shared memory; with the program
// that its author tried it with.
#include <cstdio>
#include <cuda_runtime.h>

#define TILE 32   // tune: 16, 32
#define ROWS 8    // tune: 4, 8, 16
#define PADDING 1 // tune: 0, 1

__global__ void __launch_bounds__(TILE * ROWS) transpose(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    __shared__ float tile[TILE][TILE + PADDING];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width)
            out[(size_t)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main()
{
    const int width = 2048, height = 1024;
    float *in, *out;
    cudaMalloc(&in, sizeof(float) * width * height);
    cudaMalloc(&out, sizeof(float) * width * height);
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), block(TILE, ROWS);
    transpose<<<grid, block>>>(out, in, width, height);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(in);
    cudaFree(out);
}
