#pragma once
#include <cstdio>
#include <stdlib.h>

// The place of a point of the plane.
static __host__ __device__ inline size_t place(int y, int x, int width) { return (size_t)y * width + x; }
