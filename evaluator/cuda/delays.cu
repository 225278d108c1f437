// A kernel and a faulty one, by which random delays are tried: delays that do not find
// the fault are not trusted with a candidate, and neither are those that find one where
// there is none. The entries get the arguments of a problem with one dimension, an
// input and an output.

// Every thread hands its number to another warp, after a barrier in shared memory. One
// that looks at the barrier and does not wait reads after some two microseconds, and finds
// the number there unless a warp was delayed.
static __device__ __forceinline__ void exchange(long n, float *out, bool waits)
{
	__shared__ volatile float numbers[256];
	__shared__ unsigned long long barrier;
	const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
	const unsigned i = threadIdx.x;
	numbers[i] = -1; // what an earlier launch left is not taken for an answer
	if (i == 0)
		asm volatile("mbarrier.init.shared.b64 [%0], 256;" ::"r"(at) : "memory");
	__syncthreads();
	numbers[i] = i;
	asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(at) : "memory");
	unsigned done;
	do
		asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
			     : "=r"(done)
			     : "r"(at)
			     : "memory");
	while (waits && !done);
	const long long start = clock64();
	while (clock64() - start < 4000)
		;
	const float other = numbers[blockDim.x - 1 - i];
	if (i < n)
		out[i] = other;
}

extern "C" __global__ void clean(long n, const float *in, float *out)
{
	exchange(n, out, true);
}

extern "C" __global__ void schedules(long n, const float *in, float *out)
{
	exchange(n, out, false);
}

// Of two kernels the second hands on the numbers that the first has left in the workspace. It may begin before the
// first has ended; one that does not wait for that finds them there unless the first is late.
extern "C" __global__ void leaves(long n, const float *in, float *out, float *work)
{
	if (threadIdx.x < n)
		work[threadIdx.x] = n - 1 - threadIdx.x;
}

extern "C" __global__ void takes_awaited(long n, const float *in, float *out, float *work)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
	if (threadIdx.x < n)
		out[threadIdx.x] = work[threadIdx.x];
}

extern "C" __global__ void takes(long n, const float *in, float *out, float *work)
{
	if (threadIdx.x < n)
		out[threadIdx.x] = work[threadIdx.x];
}
