#!/usr/bin/env python3
"""What making the inputs of a launch right before it does to its time: PyTorch's operators on a GPU, in
CUDA graphs, by PyTorch's events.

    scripts/gpu-fresh.py [--rounds 50]

Three graphs by turns, of as many launches as sets of buffers fill half of the last-level cache: the
launches alone, on inputs that have been there since the beginning (alone); the inputs made before each
launch, and the launch; the inputs made, without the launch. fresh is the difference of the last two, as
evotune times. Microseconds a launch, median and half of the middle 50%; scaled is an elementwise
product, of sizes that take about 2, 5, 20 and 200 microseconds.
"""
import argparse
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def operators():
    def tensor(*shape, dtype=torch.float16):
        return torch.empty(shape, dtype=dtype, device="cuda")

    for n in (1 << 16, 1 << 21, 1 << 24, 1 << 28):
        yield f"scaled {n}", lambda n=n: [tensor(n)], lambda x, out: torch.mul(x, 1.5, out=out), lambda n=n: tensor(n)
    for rows, cols in ((4096, 1024), (16384, 4096), (65536, 1024)):
        yield (f"softmax {rows}x{cols}", lambda r=rows, c=cols: [tensor(r, c)], lambda x, out: torch.softmax(x, 1, out=out),
               lambda r=rows, c=cols: tensor(r, c))
    for n in (1024, 2048, 4096, 8192):
        yield f"matmul {n}", lambda n=n: [tensor(n, n), tensor(n, n)], lambda a, b, out: torch.matmul(a, b, out=out), lambda n=n: tensor(n, n)
    for b, h, s, d in ((2, 8, 512, 64), (4, 16, 512, 64), (2, 8, 2048, 64), (4, 16, 2048, 128), (4, 16, 4096, 128)):
        def attention(q, k, v, out):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v)
        yield f"attention {b}x{h}x{s}x{d}", lambda a=(b, h, s, d): [tensor(*a) for _ in range(3)], attention, lambda a=(b, h, s, d): tensor(*a)
    # One query of each of 64 sequences, 4,096 keys behind it.
    yield ("decode 64x8x4096x128", lambda: [tensor(64, 8, 1, 128), tensor(64, 8, 4096, 128), tensor(64, 8, 4096, 128)],
           lambda q, k, v, out: F.scaled_dot_product_attention(q, k, v), lambda: tensor(64, 8, 1, 128))


def graph(parts):
    for part in parts:  # once outside of a graph: libraries choose and load what they run
        part()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for part in parts:
            part()
    for _ in range(3):
        g.replay()
    torch.cuda.synchronize()
    return g


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=50)
    args = p.parse_args()
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, microseconds a launch")
    print(f"{'':24} {'sets':>4} {'alone':>16} {'fresh':>16} {'making':>8} {'fresh/alone':>11}")
    for name, inputs, op, output in operators():
        first = inputs()
        size = sum(x.numel() * x.element_size() for x in [*first, output()])
        n = max(2, min(32, cache // 2 // size))
        sets = [(inputs(), output()) for _ in range(n)]
        make = [lambda s=s: [x.normal_() for x in s[0]] for s in sets]
        work = [lambda s=s: op(*s[0], out=s[1]) for s in sets]
        for m in make:
            m()
        graphs = [graph(work), graph([p for pair in zip(make, work) for p in pair]), graph(make)]
        times = [[], [], []]
        for _ in range(args.rounds):
            for g, list_ in zip(graphs, times):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda._sleep(20_000)  # the host gets ahead
                begin.record()
                g.replay()
                end.record()
                torch.cuda.synchronize()
                list_.append(begin.elapsed_time(end) * 1e3 / n)
        fresh = [b - c for b, c in zip(times[1], times[2])]

        def said(list_):
            q = statistics.quantiles(list_, n=4)
            return f"{q[1]:8.3f} ({(q[2] - q[0]) / 2:.3f})"
        ratio = statistics.median(fresh) / statistics.median(times[0])
        print(f"{name:24} {n:4} {said(times[0]):>16} {said(fresh):>16} {statistics.median(times[2]):8.3f} {ratio:11.3f}", flush=True)
        del sets, make, work, graphs
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
