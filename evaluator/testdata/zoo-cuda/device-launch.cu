/* Launches the work from the device, to run on when the launch that is timed has
 * ended. Class: work on another stream. Stopped by: it does not compile, since
 * candidates are not made for separate compilation. */
static __global__ void later(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}

static __device__ void body(PRODUCT_PARAMETERS)
{
	if (first())
		later<<<dim3(gridDim.x, gridDim.y), THREADS>>>(PRODUCT_ARGUMENTS);
}
