/* Takes its operands in another order. Stopped by: the prototype, which stands
 * before the source. */
#define ZOO_OWN_ENTRY
extern "C" __global__ void product(int64_t M, int64_t N, int64_t K, float *C, const __half *A, const __half *B,
                                   float alpha, void *workspace)
{
	multiply(PRODUCT_ARGUMENTS);
}
