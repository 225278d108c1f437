/* Closes its own function in inline assembly and opens another entry: text goes to
 * the assembler as it is. The other entry holds the instructions that a definition
 * may ask for, and is never launched.
 * Attacks: a candidate is one function of known name (gpu.md); what is counted of
 * the binary must be counted of the entry. No gain here. */
#define OWN_ENTRY
extern "C" __global__ void product(int64_t M, int64_t N, int64_t K, const __half *A, const __half *B, float *C, float alpha, void *workspace)
{
	multiply(Job{M, N, K, A, B, C, alpha, workspace});
	asm volatile("ret;\n}\n.visible .entry another()\n{");
}
