"""Times the operators beside PyTorch's own, on a GPU, at the shapes that kernels were tuned for: python3 bench.py [--json FILE]

Each figure is the median of many samples, in microseconds a call, by CUDA events; all that is compared takes turns, in random
order, and each sample waits for the last. In a graph, which has as many calls as last half a millisecond, the time of a
call is that of its kernels: that is how campaigns measure, and inputs and outputs rotate as they do there. "campaign" is
what manifest.json says."""

import argparse
import collections
import itertools
import json
import math
import pathlib
import random
import statistics
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evotune_torch  # noqa: E402
import theirs  # noqa: E402

ROUNDS, EAGER_CALLS, LEAST_US, MOST_CALLS = 30, 20, 500, 1024


def inputs(op, dims, ours):
    """Sets of arguments, as many as a campaign rotates through: they take half of the last-level cache, or exceed it three times where the problem is cold."""
    first = theirs.arguments(op, dims, "cuda")
    size = max(1, sum(a.numel() * a.element_size() for a in [*first, ours(*first)] if isinstance(a, torch.Tensor)))
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    n = max(2, min(64, 3 * cache // size + 1)) if op["cache"] == "cold" else max(2, min(4, cache // 2 // size))
    return [first] + [theirs.arguments(op, dims, "cuda", seed) for seed in range(2, n + 1)]


def calls(f, sets, n):
    """A function that calls f so many times, with as many results in turn as there are sets."""

    def run():
        kept = collections.deque(maxlen=len(sets) - 1)
        for _, args in zip(range(n), itertools.cycle(sets)):
            kept.append(f(*args))

    return run


def once(run, ahead=False):
    """Microseconds of the device's time between two events. With ahead the host has them queued while the device still waits."""
    if ahead:
        torch.cuda._sleep(200_000)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def graphed(f, sets):
    """The calls of one sample in a CUDA graph, and their number."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        calls(f, sets, len(sets))()
    torch.cuda.current_stream().wait_stream(side)

    def capture(n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            calls(f, sets, n)()
        graph.replay()
        return graph

    few = capture(len(sets))
    each = min(once(few.replay, True) for _ in range(5)) / len(sets)
    n = len(sets) * max(1, min(MOST_CALLS // len(sets), math.ceil(LEAST_US / each / len(sets))))
    return capture(n).replay, n


def race(runs, ahead):
    """Medians of what takes turns: runs has a function and its number of calls by name, or why there is none."""
    samples = {name: [] for name, run in runs.items() if not isinstance(run, str)}
    for turn in range(ROUNDS + 2):
        for name in random.sample(sorted(samples), len(samples)):
            run, n = runs[name]
            us = once(run, ahead) / n
            if turn >= 2:
                samples[name].append(us)
    return {name: statistics.median(samples[name]) if name in samples else runs[name] for name in runs}


def attempt(f, *args):
    """A figure, or why there is none."""
    try:
        return f(*args)
    except Exception as e:  # whatever a backend says: the others go on
        torch.cuda.synchronize()
        return str(e).strip().splitlines()[0][:80] if str(e).strip() else type(e).__name__


def check(f, sets):
    f(*sets[0])
    torch.cuda.synchronize()


def sdpa(backend):
    from torch.nn.attention import sdpa_kernel

    def f(q, k, v, causal):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return f


def others(op):
    """Further ways that PyTorch has."""
    if op["kernel"] != "attention":
        return {}
    try:
        from torch.nn.attention import SDPBackend
    except ImportError:
        return {}
    names = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH"}
    return {n: sdpa(getattr(SDPBackend, b)) for n, b in names.items() if hasattr(SDPBackend, b)}


def tuned(manifest, name):
    """The tuned shapes of a kernel on this device: name, sizes, and the campaign's time in microseconds."""
    found = {}
    for k in manifest["kernels"]:
        for v in k["variants"] if k["kernel"] == name else []:
            if v["device"]["name"] != torch.cuda.get_device_name():
                continue
            for t in v["timings"]:
                if t["dims"] and (t["shape"] not in found or t["median_ns"] / 1e3 < found[t["shape"]][1]):
                    found[t["shape"]] = t["dims"], t["median_ns"] / 1e3
    return found


def cell(x, digits=2):
    return f"{x:.{digits}f}" if isinstance(x, float) else "-"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=pathlib.Path)
    options = options.parse_args()
    if not (evotune_torch.CUDA and torch.cuda.is_available()):
        sys.exit("bench.py: it needs a GPU, and a library exported for GPUs")
    manifest = json.loads((HERE.parent / "manifest.json").read_text())
    evotune_torch.prepare()
    rows, columns = [], ["kernel", "shape", "ours eager", "torch eager", "ours graph", "torch graph", "campaign", "graph/campaign"]
    for name, op in evotune_torch.OPS.items():
        if op["kernel"] not in theirs.EAGER:
            continue
        ways = {"ours": getattr(torch.ops.evotune, name), "torch": theirs.EAGER[op["kernel"]], **others(op)}
        for shape, (dims, campaign) in tuned(manifest, op["kernel"]).items():
            sets = inputs(op, dims, ways["ours"])
            wrong = theirs.error(ways["ours"](*sets[0]), theirs.double(op, sets[0]), op.get("unwritten", False))
            usable = {way: attempt(check, f, sets) for way, f in ways.items()}
            # Graphs first: after load without a pause the clocks are lower.
            graph = race({way: usable[way] or attempt(graphed, f, sets) for way, f in ways.items()}, ahead=True)
            eager = race({way: usable[way] or (calls(f, sets, EAGER_CALLS), EAGER_CALLS) for way, f in ways.items()}, ahead=False)
            row = {"kernel": op["kernel"], "shape": shape, "error": wrong, "tolerance": op["tolerance"], "campaign": campaign}
            for way in ("ours", "torch"):
                row[f"{way} eager"], row[f"{way} graph"] = eager[way], graph[way]
            row["graph/campaign"] = row["ours graph"] / campaign if isinstance(row["ours graph"], float) else None
            row["others"] = {way: {"eager": eager[way], "graph": graph[way]} for way in list(ways)[2:]}
            rows.append(row)
            del sets
            torch.cuda.empty_cache()
    table = [columns] + [[r["kernel"], r["shape"], *(cell(r[c]) for c in columns[2:])] for r in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds a call")
    for line in table:
        print("  ".join(text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths))))
    for r in rows:
        if r["others"]:
            print(f"{r['kernel']} {r['shape']}, PyTorch's backends, eager and in a graph: " + "; ".join(
                f"{n} {cell(o['eager'])} {cell(o['graph'])}" for n, o in r["others"].items()))
        for c in columns[2:6]:
            if isinstance(r[c], str):
                print(f"{r['kernel']} {r['shape']}, {c}: {r[c]}")
        if not r["error"] <= max(r["tolerance"], 1e-6):
            print(f"{r['kernel']} {r['shape']}: WRONG, error {r['error']:.3g}, allowed {r['tolerance']:.3g}")
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
