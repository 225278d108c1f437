#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// A transposed matrix by tiles, whose threads wait for each other as a group.
#define TILE 32 // tune: 16, 32, 64
#define ROWS 8  // tune: 2, 4, 8
#define PAD 1   // tune: 0, 1

__global__ void transpose(const float *__restrict__ in, float *__restrict__ out, int height, int width)
{
    __shared__ float tile[TILE][TILE + PAD];
    cg::thread_block block = cg::this_thread_block();
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS)
        if (x < width && y + i < height)
            tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * width + x];
    block.sync();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS)
        if (x < height && y + i < width)
            out[(size_t)(y + i) * height + x] = tile[threadIdx.x][threadIdx.y + i];
}

void run(const float *in, float *out, int height, int width, cudaStream_t stream)
{
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), block(TILE, ROWS);
    transpose<<<grid, block, 0, stream>>>(in, out, height, width);
}
