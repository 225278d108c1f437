/* Does not define the entry. Stopped by: the backend looks for it in what was
 * compiled. */
#define ZOO_OWN_ENTRY
extern "C" __global__ void another(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
