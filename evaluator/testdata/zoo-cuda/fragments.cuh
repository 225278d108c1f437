/* trapped multiplies fragments of which one is loaded from local memory. */
static __device__ inline void trapped(PRODUCT_PARAMETERS)
{
	using namespace nvcuda;
	__align__(32) __half q[16 * 16];
	for (int e = 0; e < 16 * 16; e++)
		q[e] = A[e % (M * K)];
	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
	__shared__ __align__(32) Tiles t;
	load(t, PRODUCT_ARGUMENTS, 0);
	__syncthreads();
	wmma::fill_fragment(c, 0.0f);
	wmma::load_matrix_sync(a, q, 16);
	wmma::load_matrix_sync(b, &t.b[0][0], TILE + 8);
	wmma::mma_sync(c, a, b, c);
	__syncthreads();
	wmma::store_matrix_sync(&t.c[0][0], c, TILE + 4, wmma::mem_row_major);
	__syncthreads();
	store(t, PRODUCT_ARGUMENTS, M, N);
}
