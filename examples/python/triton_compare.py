"""Times evotune's winner beside @triton.autotune over the same configurations, in one process.

Launches rotate over copies of the inputs that together exceed the L2 cache several times. Both search
that way: evotune rotates, and @triton.autotune clears the cache before each launch."""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics

import evotune
import torch
import triton

LAUNCHES = 20  # in a graph
ROUNDS = 60


def configurations(genes, valid=lambda **values: True):
    """One triton.Config for each valid combination of the genes' values."""
    for values in itertools.product(*genes.values()):
        config = dict(zip(genes, values))
        if valid(**config):
            options = {name: config.pop(name) for name in ("num_warps", "num_stages") if name in config}
            yield triton.Config(config, **options)


def copies(inputs):
    """The inputs, and as many copies of them as exceed the L2 cache four times, two at least."""
    size = sum(t.nbytes for t in inputs)
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return [inputs] + [[t.clone() for t in inputs] for _ in range(max(2, min(LAUNCHES, math.ceil(4 * cache / size))) - 1)]


def graph(call, sets):
    """A CUDA graph with several launches of a call, on one set of inputs after another: the time is that of the kernels alone."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for inputs in sets:
            call(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for i in range(LAUNCHES):
            call(*sets[i % len(sets)])
    return made


def replay(made):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    made.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / LAUNCHES


def compare(name, best, inputs, theirs, tuner, outputs):
    """Prints the ratio of the times of the winner, as an operator, and of another one, which take turns in random order. Above 1 evotune's is faster."""
    try:
        op = best.op()
    except evotune.Error as err:  # where nothing is faster than the baseline, say
        print(f"{name}: {err}: taken as the search found it")
        op = best.op(evidence="sanitized")
    op.module.use("kernels")  # never PyTorch's own, however fast that is
    op.module.prepare()
    print(f"{name}: {op.explain(*inputs)}")
    if best.id not in op.explain(*inputs):
        raise SystemExit(f"{name}: the operator does not call the winner {best.id}")

    tolerance = 2e-2
    for a, b in zip(outputs(op(*inputs)), outputs(theirs(*inputs))):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    sets = copies(inputs)
    graphs = {"evotune": graph(op, sets), "triton.autotune": graph(theirs, sets)}
    times = {what: [] for what in graphs}
    for round in range(ROUNDS + 5):
        for what in random.sample(list(graphs), len(graphs)):
            time = replay(graphs[what])
            if round >= 5:
                times[what].append(time)
    median = {what: statistics.median(list) for what, list in times.items()}
    ratios = sorted(b / a for a, b in zip(times["evotune"], times["triton.autotune"]))
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    print(f"{name}: triton.autotune chose {tuner.best_config}")
    for what, time in median.items():
        print(f"{name}: {what} {time:.2f} us (median of {ROUNDS})")
    print(f"{name}: ratio {median['triton.autotune'] / median['evotune']:.3f} (80% of the rounds between {low:.3f} and {high:.3f}); above 1 evotune is faster")


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--compare", action="store_true", help="time the winner beside @triton.autotune over the same configurations")
    parser.add_argument("--time", default="60s", help="how long to search (60s)")
    return parser.parse_args()
