/* Honest: tells the device, where it is new enough for that, that launches which
 * depend on it may begin. Without an attribute of the launch that changes nothing. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	multiply(j);
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}
