/* Doubles a tree of templates 40 times, each with names of its own: the compiler
 * needs more time and memory than there is.
 * Attacks: "it may crash or never end without taking anything along" (gpu.md): time, and
 * memory of the machine. */
template <unsigned long long N, int D> struct Tree {
	static __device__ float sum(float x)
	{
		return Tree<2 * N, D - 1>::sum(x) + Tree<2 * N + 1, D - 1>::sum(x);
	}
};
template <unsigned long long N> struct Tree<N, 0> {
	static __device__ float sum(float x)
	{
		return x * N;
	}
};

static __device__ void body(const Job &j)
{
	multiply(j);
	if (j.M == -1)
		j.C[0] = Tree<1, 40>::sum(j.alpha);
}
