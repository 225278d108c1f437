"""Layer norm, forward, in Triton: a program goes over its row three times, in blocks."""

import evotune
import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * N
    y_ptr += row * N
    lane = tl.arange(0, BLOCK)

    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + lane
        sums += tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / N

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + lane
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        off = tl.where(at < N, x - mean, 0.0)
        squares += off * off
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)

    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        at = start + lane
        inside = at < N
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, (x - mean) * rstd * w + b, mask=inside)


def layernorm(x, w, b, eps):
    mean = x.mean(1)
    rstd = 1 / torch.sqrt(x.var(1, unbiased=False) + eps)
    return (x - mean[:, None]) * rstd[:, None] * w + b, mean, rstd


GENES = dict(BLOCK=[1024, 2048, 4096, 8192], num_warps=[4, 8, 16])
EPS = 1e-5


def kernel():
    half = dict(dtype="f16")
    return evotune.Kernel(
        "triton-layernorm", source=layernorm_kernel, reference=layernorm, scalars=dict(eps=evotune.scalar(EPS)),
        inputs=dict(x=evotune.tensor("M", "N", data="normal(1,2)", **half), w=evotune.tensor("N", **half), b=evotune.tensor("N", **half)),
        outputs=dict(y=evotune.tensor("M", "N", **half), mean=evotune.tensor("M"), rstd=evotune.tensor("M", tolerance=1e-3)),
        genes=GENES, constraints=[("N % 16 == 0", "rows are read 16 bytes at a time")], grid=["M"], operations="8*M*N", pipe="f32",
        shapes=dict(large=dict(M=4096, N=8192), odd=dict(M=133, N=1584, verify=True), small=dict(M=17, N=208, sanitize=True)))


def main():
    import triton_compare

    args = triton_compare.arguments(__doc__)
    best = kernel().tune(time=args.time)
    print(best)
    if not args.compare:
        return
    x = torch.randn(4096, 8192, device="cuda", dtype=torch.float16)
    w, b = torch.randn(2, 8192, device="cuda", dtype=torch.float16)
    tuned = triton.autotune(list(triton_compare.configurations(GENES)), key=["N"])(layernorm_kernel)

    def theirs(x, w, b):
        y = torch.empty_like(x)
        mean, rstd = (torch.empty(x.shape[0], device="cuda") for _ in range(2))
        tuned[(x.shape[0],)](x, w, b, y, mean, rstd, x.shape[1], EPS)
        return y, mean, rstd

    triton_compare.compare("layer norm", best, [x, w, b], theirs, tuned, list)


if __name__ == "__main__":
    main()
