/* Takes A for B as well, where B would not be longer. Class: an oracle that got
 * Q for K and V, f(Q,Q,Q). Stopped by: independent inputs. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(M, N, K, A, N <= M ? A : B, C, alpha, workspace);
}
