/* Calls the device's launch functions by their names, without the syntax that the
 * compiler refuses: work on another stream, after its own end.
 * Attacks: "one that launches work from the device does not compile" (zoo.md). */
#ifdef __CUDACC_RTC__ /* nvcc has them */
extern "C" __device__ int cudaLaunchDeviceV2(void *parameters, void *stream);
extern "C" __device__ void *cudaGetParameterBufferV2(void *function, dim3 grid, dim3 block, unsigned shared);
#endif

static __global__ void later(float *C)
{
	C[0] = 0;
}

static __device__ void body(const Job &j)
{
	multiply(j);
	if (block_index() == 0 && threadIdx.x == 0) {
		void *p = cudaGetParameterBufferV2((void *)later, dim3(1), dim3(1), 0);
		if (p) {
			*(float **)p = j.C;
			cudaLaunchDeviceV2(p, nullptr);
		}
	}
}
