/* Asks for a workspace that cannot be had: see the launch in kernel.toml. Honest else.
 * Attacks: that the machine is blamed. */
static __device__ void body(const Job &j)
{
	add_up(j);
}
