"""Times the operators beside PyTorch's own, on a GPU, at the shapes that kernels were tuned for: python3 bench.py [--json FILE]

Each figure is the median of many batches, in microseconds a call, by CUDA events. Inputs rotate past the last-level
cache where the campaign's did. "kernel" is the time of the kernels alone as PyTorch's profiler sees it, "campaign"
what manifest.json says."""

import argparse
import itertools
import json
import pathlib
import statistics
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evotune_torch  # noqa: E402
import theirs  # noqa: E402

BATCHES, CALLS, PAST_CACHE = 40, 20, 256 << 20


def inputs(op, dims):
    """Sets of arguments: enough that they do not fit the cache, where the problem is cold, and a few otherwise."""
    first = theirs.arguments(op, dims, "cuda")
    size = sum(a.numel() * a.element_size() for a in first if isinstance(a, torch.Tensor))
    n = max(2, min(64, PAST_CACHE // max(size, 1))) if op["cache"] == "cold" else 2
    return [first] + [theirs.arguments(op, dims, "cuda", seed) for seed in range(2, n + 1)]


def batches(run):
    """Median microseconds of run, which makes CALLS calls."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(BATCHES)]
    for start, end in marks:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(s.elapsed_time(e) for s, e in marks) * 1e3 / CALLS


def calls(f, sets):
    turn = itertools.cycle(sets)

    def run():
        for _ in range(CALLS):
            f(*next(turn))

    return run


def eager(f, sets):
    return batches(calls(f, sets))


def graphed(f, sets):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for args in sets[:2]:
            f(*args)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    run = calls(f, sets)
    with torch.cuda.graph(graph):
        run()
    return batches(graph.replay)


def kernel(f, sets):
    """Microseconds of device time a call, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    run = calls(f, sets)
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        run()
        torch.cuda.synchronize()
    on = [e.time_range.elapsed_us() for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    # one kernel a call; where there are as many, their median is robust against the first
    return statistics.median(on) if len(on) == CALLS else sum(on) / CALLS


def attempt(f, *args):
    """A figure, or why there is none."""
    try:
        return f(*args)
    except Exception as e:  # whatever a backend says: the others go on
        torch.cuda.synchronize()
        return str(e).strip().splitlines()[0][:80] if str(e).strip() else type(e).__name__


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
    rows, columns = [], ["kernel", "shape", "ours", "torch", "ours graph", "torch graph", "ours kernel", "torch kernel", "campaign", "kernel/campaign"]
    for name, op in evotune_torch.OPS.items():
        if op["kernel"] not in theirs.EAGER:
            continue
        ours, torchs = getattr(torch.ops.evotune, name), theirs.EAGER[op["kernel"]]
        for shape, (dims, campaign) in tuned(manifest, op["kernel"]).items():
            sets = inputs(op, dims)
            row = {
                "kernel": op["kernel"], "shape": shape, "error": theirs.error(ours(*sets[0]), theirs.double(op, sets[0])), "tolerance": op["tolerance"],
                "ours": attempt(eager, ours, sets), "torch": attempt(eager, torchs, sets),
                "ours graph": attempt(graphed, ours, sets), "torch graph": attempt(graphed, torchs, sets),
                "ours kernel": attempt(kernel, ours, sets), "torch kernel": attempt(kernel, torchs, sets), "campaign": campaign,
            }
            row["kernel/campaign"] = row["ours kernel"] / campaign if isinstance(row["ours kernel"], float) else None
            row["others"] = {n: {"eager": attempt(eager, f, sets), "graph": attempt(graphed, f, sets)} for n, f in others(op).items()}
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
        for c in columns[2:8]:
            if isinstance(r[c], str):
                print(f"{r['kernel']} {r['shape']}, {c}: {r[c]}")
        if not r["error"] <= max(r["tolerance"], 1e-6):
            print(f"{r['kernel']} {r['shape']}: WRONG, error {r['error']:.3g}, allowed {r['tolerance']:.3g}")
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
