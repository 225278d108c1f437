#pragma once
__device__ static inline float scaled(float x, float factor) { return x * factor; }
