/* Repeats the first result for ever, whatever the inputs. Class: results replayed
 * from the warm-up. Stopped by: several contents of the inputs. */
#include "memory.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	recall(PRODUCT_ARGUMENTS, 1);
}
