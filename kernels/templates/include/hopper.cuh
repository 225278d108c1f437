/* What kernels for Hopper (sm_90a) share: barriers in shared memory, copies by the tensor memory
 * accelerator, products of warpgroups. Addresses in shared memory are 32-bit, as PTX has them. */
#define DEVICE static __device__ __forceinline__

DEVICE unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* One lane of a whole warp, always the same one; unlike a test of threadIdx it tells the compiler
 * that no loop over lanes is needed. */
DEVICE bool elected()
{
	unsigned yes;
	asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(yes));
	return yes;
}

DEVICE unsigned rank_in_cluster()
{
	unsigned r;
	asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
	return r;
}

/* Waits for all threads of the cluster; what they wrote before is seen after. */
DEVICE void cluster_sync()
{
	asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* To wait for all threads of the cluster, and not for what they have written. */
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

DEVICE void cluster_meet()
{
	cluster_arrive();
	cluster_wait();
}

/* The same, for some threads of a block: numbers above 0 are free. */
DEVICE void named_sync(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

DEVICE void barrier_init(unsigned at, unsigned count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}

/* Makes initialised barriers known to the cluster and to copies, those of the same thread too. */
DEVICE void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void barrier_wait(unsigned at, unsigned parity)
{
	asm volatile("{\n\t.reg .pred p;\n\tAGAIN:\n\t"
		     "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@p bra DONE;\n\tbra AGAIN;\n\tDONE:\n\t}" ::"r"(at), "r"(parity)
		     : "memory");
}

/* Arrives, and says how many bytes copies will bring. */
DEVICE void barrier_expect(unsigned at, unsigned bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

DEVICE void barrier_arrive(unsigned at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }

/* Arrives at the barrier of that block of the cluster. The form with .release.cluster costs a
 * MEMBAR; who arrives here has only read. */
DEVICE void barrier_arrive_at(unsigned at, unsigned rank)
{
	asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
		     "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(at), "r"(rank)
		     : "memory");
}

/* Where an address of this block's shared memory is in that block of the cluster. */
DEVICE unsigned address_at(unsigned at, unsigned rank)
{
	unsigned there;
	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
	return there;
}

/* Sends four numbers to another block; its barrier learns of their bytes. Addresses are address_at's. */
DEVICE void send_floats(unsigned to, unsigned barrier, const float v[4])
{
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(to), "r"(barrier), "f"(v[0]),
		     "f"(v[1]), "f"(v[2]), "f"(v[3])
		     : "memory");
}

DEVICE void add_floats(float v[4], unsigned at)
{
	float x, y, z, w;
	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(at) : "memory");
	v[0] += x, v[1] += y, v[2] += z, v[3] += w;
}

/* Copies two 16-bit elements to shared memory, or zeros; the thread goes on until copies_wait. */
DEVICE void copy_pair(unsigned to, const void *from, bool copied)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(copied ? 4 : 0) : "memory");
}

DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

DEVICE unsigned load_pair(unsigned at)
{
	unsigned v;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

DEVICE void prefetch(const evotune_tensor_map *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

/* A box whose first element has these indices, the innermost first; the barrier learns of its bytes. */
DEVICE void load_box(unsigned to, const evotune_tensor_map *from, unsigned barrier, int x, int y)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
		     "l"(from), "r"(barrier), "r"(x), "r"(y)
		     : "memory");
}

DEVICE void load_box(unsigned to, const evotune_tensor_map *from, unsigned barrier, int x, int y, int z)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
		     "l"(from), "r"(barrier), "r"(x), "r"(y), "r"(z)
		     : "memory");
}

/* The same into several blocks of the cluster at once, to the same place in each. */
DEVICE void load_box_to_all(unsigned to, const evotune_tensor_map *from, unsigned barrier, int x, int y, unsigned blocks)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
		     "[%2], %5;" ::"r"(to),
		     "l"(from), "r"(barrier), "r"(x), "r"(y), "h"((unsigned short)blocks)
		     : "memory");
}

DEVICE void load_box_to_all(unsigned to, const evotune_tensor_map *from, unsigned barrier, int x, int y, int z, unsigned blocks)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
		     "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
		     "l"(from), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"((unsigned short)blocks)
		     : "memory");
}

/* With a policy of the second-level cache. */
DEVICE void load_box_as(unsigned to, const evotune_tensor_map *from, unsigned barrier, int x, int y, uint64_t policy)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], "
		     "[%2], %5;" ::"r"(to),
		     "l"(from), "r"(barrier), "r"(x), "r"(y), "l"(policy)
		     : "memory");
}

DEVICE uint64_t used_once()
{
	uint64_t policy;
	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
	return policy;
}

DEVICE uint64_t used_again()
{
	uint64_t policy;
	asm volatile("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
	return policy;
}

/* Has the second-level cache fetch a box. */
DEVICE void prefetch_box(const evotune_tensor_map *from, int x, int y)
{
	asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(from), "r"(x), "r"(y) : "memory");
}

DEVICE void store_box(const evotune_tensor_map *to, unsigned from, int x, int y)
{
	asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to), "r"(from), "r"(x), "r"(y)
		     : "memory");
}

DEVICE void store_box(const evotune_tensor_map *to, unsigned from, int x, int y, int z)
{
	asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(to), "r"(from), "r"(x), "r"(y), "r"(z)
		     : "memory");
}

DEVICE void stores_begin() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); } /* after ordinary writes, before store_box */
DEVICE void stores_end() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/* Waits until no more than N groups of this thread's stores still have to read. */
template <int N> DEVICE void stores_have_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }

/* A matrix in shared memory for wgmma: lines of 128 bytes, swizzled; leading and stride are the bytes
 * between parts, in the sense of PTX's matrix descriptor. */
DEVICE uint64_t matrix(unsigned at, unsigned leading, unsigned stride)
{
	return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* The matrix that many bytes behind one: of 64 bits only those of the address change. */
DEVICE uint64_t further(uint64_t matrix, unsigned bytes) { return matrix >> 32 << 32 | ((unsigned)matrix + (bytes >> 4)); }

DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until no more than N groups of products are under way. */
template <int N> DEVICE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

template <int N> DEVICE void registers_up_to() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEVICE void registers_down_to() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

/* Four 8x8 matrices of 16-bit elements from shared memory to registers, as store_matrices takes them. */
DEVICE void load_matrices(unsigned v[4], unsigned at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}

/* Four 8x8 matrices of 16-bit elements from registers, as wgmma leaves them, to shared memory. */
DEVICE void store_matrices(unsigned at, const unsigned v[4])
{
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
		     : "memory");
}
