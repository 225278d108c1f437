"""A product of matrices in half precision, in Triton: tiles of the product, in an order in which neighbors share what they read."""

import evotune
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr):
    # GROUP rows of tiles are worked through column by column.
    tile = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    first = tile // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    tile_m = first + tile % (GROUP * tiles_n) % height
    tile_n = tile % (GROUP * tiles_n) // height

    # Rows and columns outside read what is inside, and are not written.
    rows = (tile_m * TILE_M + tl.arange(0, TILE_M)) % M
    columns = (tile_n * TILE_N + tl.arange(0, TILE_N)) % N
    depth = tl.arange(0, TILE_K)
    a = a_ptr + rows[:, None] * K + depth[None, :]
    b = b_ptr + depth[:, None] * N + columns[None, :]
    sums = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(0, K, TILE_K):
        left = tl.load(a, mask=depth[None, :] < K - k, other=0.0)
        right = tl.load(b, mask=depth[:, None] < K - k, other=0.0)
        sums = tl.dot(left, right, sums)
        a += TILE_K
        b += TILE_K * N

    rows = tile_m * TILE_M + tl.arange(0, TILE_M)
    columns = tile_n * TILE_N + tl.arange(0, TILE_N)
    c = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c, sums.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b):
    return a @ b


GENES = dict(TILE_M=[64, 128], TILE_N=[128, 256], TILE_K=[64], GROUP=[8], num_warps=[4, 8], num_stages=[3, 4])
SIZE = 4096


def kernel():
    half = dict(dtype="f16")
    return evotune.Kernel(
        "triton-matmul", source=matmul_kernel, reference=matmul, inputs=dict(a=evotune.tensor("M", "K", **half), b=evotune.tensor("K", "N", **half)),
        outputs=dict(c=evotune.tensor("M", "N", **half)), genes=GENES,
        constraints=[("N % 16 == 0", "rows of b and c are read 16 bytes at a time"), ("K % 16 == 0", "rows of a are read 16 bytes at a time")],
        grid=["ceil(M/TILE_M) * ceil(N/TILE_N)"], operations="2*M*N*K", pipe="tensor-f16",
        shapes=dict(large=dict(M=SIZE, N=SIZE, K=SIZE), odd=dict(M=259, N=336, K=400, verify=True), small=dict(M=131, N=144, K=208, sanitize=True)))


def main():
    import triton_compare

    args = triton_compare.arguments(__doc__)
    best = kernel().tune(time=args.time)
    print(best)
    if not args.compare:
        return
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    b = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    tuned = triton.autotune(list(triton_compare.configurations(GENES)), key=["M", "N", "K"])(matmul_kernel)

    def theirs(a, b):
        c = torch.empty_like(a)
        tuned[lambda config: (triton.cdiv(SIZE, config["TILE_M"]) * triton.cdiv(SIZE, config["TILE_N"]),)](a, b, c, SIZE, SIZE, SIZE)
        return c

    triton_compare.compare("matmul", best, [a, b], theirs, tuned, lambda c: [c])


if __name__ == "__main__":
    main()
