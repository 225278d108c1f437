/* Loads fragments from an array in local memory, which the hardware cannot: the
 * compiler warns and makes a trap of it. Class: the warning that named the cause
 * and was ignored ten times. Stopped by: diagnostics that block. */
#include "fragments.cuh"

#define ZOO_OWN_ENTRY
extern "C" __global__ void product(PRODUCT_PARAMETERS)
{
	trapped(PRODUCT_ARGUMENTS);
}
