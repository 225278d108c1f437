// Faults that are planted for the tools of compute-sanitizer: a tool that does
// not report its own is not trusted with a candidate. None of them changes an
// answer that anybody looks at. The entries get the arguments of a problem
// with one dimension, an input and an output.

// Outside of the output by one element.
extern "C" __global__ void memcheck(long n, const float *in, float *out)
{
	const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = in[i];
	if (i == 0)
		((volatile float *)out)[n] = 1;
}

// What one warp writes and another reads, with no barrier between.
extern "C" __global__ void racecheck(long n, const float *in, float *out)
{
	__shared__ volatile float exchange[256];
	const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	exchange[threadIdx.x] = i < n ? in[i] : 0;
	const float other = exchange[blockDim.x - 1 - threadIdx.x];
	if (i < n)
		out[i] = other;
}

// A barrier that some of a warp's threads do not reach.
extern "C" __global__ void synccheck(long n, const float *in, float *out)
{
	const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	if (threadIdx.x % 32 < 16)
		asm volatile("barrier.sync.aligned 1, 32;" ::: "memory");
	if (i < n)
		out[i] = in[i];
}

// An element that nobody has written.
extern "C" __global__ void initcheck(long n, const float *in, float *out)
{
	const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = in[i] + out[i];
}

// No fault.
extern "C" __global__ void clean(long n, const float *in, float *out)
{
	__shared__ float exchange[256];
	const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
	exchange[threadIdx.x] = i < n ? in[i] : 0;
	__syncthreads();
	const float other = exchange[blockDim.x - 1 - threadIdx.x];
	if (i < n)
		out[i] = other;
}
