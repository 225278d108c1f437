#include <cuda_runtime.h>

// Which points are inside of a polygon: those from which a ray crosses its edges an odd number of times. The crossings
// are computed in double precision, so that no rounding decides.
#define THREADS 256 // tune: 64, 128, 256
#define POINTS 1    // tune: 1, 2, 4

__global__ void inside(const float2 *points, const float2 *corners, int *flags, int count, int edges)
{
    int first = blockIdx.x * THREADS * POINTS + threadIdx.x;
    float2 p[POINTS];
    bool in[POINTS] = {};
    for (int k = 0; k < POINTS; k++)
        p[k] = first + k * THREADS < count ? points[first + k * THREADS] : make_float2(0, 0);
    for (int i = 0; i < edges; i++) {
        float2 a = corners[i], b = corners[i + 1 < edges ? i + 1 : 0];
#pragma unroll
        for (int k = 0; k < POINTS; k++)
            if ((a.y > p[k].y) != (b.y > p[k].y)) {
                double at = ((double)b.x - a.x) * ((double)p[k].y - a.y) / ((double)b.y - a.y);
                if ((double)p[k].x - a.x < at)
                    in[k] = !in[k];
            }
    }
    for (int k = 0; k < POINTS; k++)
        if (first + k * THREADS < count)
            flags[first + k * THREADS] = in[k];
}
