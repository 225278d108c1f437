/* Includes a file of the machine's that is no C: the compiler's complaint quotes it.
 * Attacks: files are read from the folder alone (kernels.md), and what the
 * compiler says is kept and may travel. Gains: secrets. */
#include "/etc/passwd"

static __device__ void body(const Job &j)
{
	multiply(j);
}
