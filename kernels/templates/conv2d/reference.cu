/* A 3x3 convolution of one image with a border of zeros, in double precision, one
 * output for each thread: the sum over channels and taps that lie inside the image. */
extern "C" __global__ void reference(int64_t C, int64_t H, int64_t W, int64_t F, const double *X, const double *K, double *Y)
{
	const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (at >= F * H * W)
		return;
	const int64_t f = at / (H * W), y = at / W % H, x = at % W;
	double sum = 0;
	for (int64_t c = 0; c < C; c++)
		for (int64_t dy = -1; dy <= 1; dy++)
			for (int64_t dx = -1; dx <= 1; dx++)
				if (y + dy >= 0 && y + dy < H && x + dx >= 0 && x + dx < W)
					sum += X[(c * H + y + dy) * W + x + dx] * K[((f * C + c) * 3 + dy + 1) * 3 + dx + 1];
	Y[at] = sum;
}
