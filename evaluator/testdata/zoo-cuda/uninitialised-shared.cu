/* Does not fill its shared squares behind the end of K, and multiplies what an
 * earlier step left there. Class: reads of what nobody wrote; initcheck does not
 * look at shared memory. Stopped by: shapes whose K is no multiple of a step. */
#define PAD(square, x, y) (void)0
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
