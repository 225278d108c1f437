/* Names a file of the machine's as its source, in inline assembly, and stays right.
 * Attacks: reports of tools quote the line of the source that faulted (gpu.md): what
 * they open must not be a file of the candidate's choice. No gain. */
static __device__ void body(const Job &j)
{
	multiply(j);
	asm volatile(".file 7 \"/etc/passwd\"\n\t.loc 7 1 1;");
}
