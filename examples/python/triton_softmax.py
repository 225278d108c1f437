"""The softmax of each row, in Triton: programs take rows in turn, and a row fits into a block."""

import evotune
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, x_ptr, M, N, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * N + columns, mask=inside, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * N + columns, e / tl.sum(e, axis=0), mask=inside)


def softmax(x):
    return torch.softmax(x, 1)


GENES = dict(BLOCK=[2048, 4096], PROGRAMS=[528, 1056, 2112], STAGES=[1, 2], num_warps=[4, 8, 16])


def kernel():
    return evotune.Kernel(
        "triton-softmax", source=softmax_kernel, reference=softmax, inputs=dict(x=evotune.tensor("M", "N", domain="[-1e4, 1e4]")),
        # The largest answers are some 60 times their root mean square, which tolerances are relative to, and each is right to 1e-6 of itself.
        outputs=dict(y=evotune.tensor("M", "N", tolerance=1e-4)),
        genes=GENES, constraints=[("N % 16 == 0", "rows are read 16 bytes at a time"), ("BLOCK >= N", "a row fits into a block")], grid=["min(M, PROGRAMS)"],
        operations="5*M*N", pipe="f32",
        shapes=dict(large=dict(M=8192, N=4096), odd=dict(M=1031, N=784, verify=True), small=dict(M=37, N=208, sanitize=True)))


def main():
    import triton_compare

    args = triton_compare.arguments(__doc__)
    best = kernel().tune(time=args.time)
    print(best)
    if not args.compare:
        return
    x = torch.randn(8192, 4096, device="cuda")
    tuned = triton.autotune(list(triton_compare.configurations(GENES, lambda BLOCK, **_: BLOCK >= x.shape[1])), key=["M", "N"])(softmax_kernel)

    def theirs(x):
        y = torch.empty_like(x)
        tuned[lambda config: (min(x.shape[0], config["PROGRAMS"]),)](y, x, x.shape[0], x.shape[1])
        return y

    triton_compare.compare("softmax", best, [x], theirs, tuned, lambda y: [y])


if __name__ == "__main__":
    main()
