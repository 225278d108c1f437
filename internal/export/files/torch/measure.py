"""Times operators beside PyTorch, and keeps what was found: python3 -m evotune_torch measure [OPERATOR [DIM=SIZE,... ...]]

On a GPU both are captured in CUDA graphs, which have as many calls as last half a millisecond, and replays take
turns in random order, each of which waits for the last: that is the time of the kernels. Inputs rotate as in
campaigns. On a CPU calls take turns in the same way. A shape is evotune's where its median is at most 0.98 of
PyTorch's and it was faster in so many rounds that chance explains them in less than one of a hundred cases (22 of
30, by the sign test); else PyTorch's. Results are in measured.txt of this folder, or in the file that
EVOTUNE_TORCH_MEASURED names, which is read when the package is imported."""

import argparse
import collections
import itertools
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
import warnings

import torch

MARGIN, CHANCE = 0.98, 0.01
ROUNDS, LEAST_US, MOST_CALLS = 30, 500, 1024
LONGEST, FEWEST = 20, 7  # seconds after which a shape has no further rounds, if it has had so many
HEAD = "evotune-torch-measured 1"
FIELDS = "# kernel\tdimensions\tdevice\tcandidate\tevotune ns\tPyTorch ns\tfaster in\tPyTorch\tdecision\t."


def _operators():
    from . import operators

    return operators


def path():
    """The file with the results."""
    return pathlib.Path(os.environ.get("EVOTUNE_TORCH_MEASURED") or pathlib.Path(__file__).resolve().parent / "measured.txt")


def _lines():
    """The lines of the file, by what they are about."""
    try:
        text = path().read_text()
    except FileNotFoundError:
        return {}
    lines = text.splitlines()
    if not lines or lines[0] != HEAD:
        warnings.warn(f"{path()}: line 1: expected {HEAD!r}: nothing of it was read")
        return {}
    found = {}
    for n, line in enumerate(lines[1:], 2):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            kernel, dims, device, candidate, ours, theirs, share, version, decision, dot = fields
            if dot != "." or decision not in ("evotune", "PyTorch"):
                raise ValueError
            found[kernel, dims, device, candidate, version] = (float(ours), float(theirs), float(share), decision)
            dict(d.split("=") for d in dims.split(","))
        except ValueError:
            warnings.warn(f"{path()}: line {n} was skipped: expected ten fields as line 2 has them")
    return found


def load():
    """Tells the operators what was measured with this PyTorch."""
    by_kernel = {op.kernel: op for op in _operators().operators().values()}
    for (kernel, dims, device, candidate, version), (ours, theirs, share, decision) in _lines().items():
        op, sizes = by_kernel.get(kernel), dict(d.split("=") for d in dims.split(","))
        if op is None or version != torch.__version__ or list(sizes) != list(op.spec["dims"]):
            continue
        _operators().ops._measured(op.name, device, [int(n) for n in sizes.values()], candidate, ours, theirs, share, decision == "evotune")


def _store(rows):
    lines = _lines()
    for r in rows:
        lines[r["kernel"], r["dims"], r["device"], r["candidate"], torch.__version__] = (r["ours"], r["theirs"], r["share"], r["decision"])
    text = [HEAD, FIELDS]
    for (kernel, dims, device, candidate, version), (ours, theirs, share, decision) in sorted(lines.items()):
        text.append("\t".join([kernel, dims, device, candidate, f"{ours:.1f}", f"{theirs:.1f}", f"{share:.4f}", version, decision, "."]))
    target = path()
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=".measured-", delete=False) as f:
            f.write("\n".join(text) + "\n")
        os.replace(f.name, target)
    except OSError as e:
        raise OSError(f"evotune_torch: {target} could not be written ({e}): name another file in EVOTUNE_TORCH_MEASURED") from None


def sets(op, args, cuda):
    """Sets of arguments, as many as a campaign rotates through: they take half of the last-level cache, or exceed it three times where the problem is cold."""
    size = max(1, sum(a.numel() * a.element_size() for a in args if isinstance(a, torch.Tensor)) * 2)
    cache = torch.cuda.get_device_properties(args[0].device).L2_cache_size if cuda and hasattr(torch.cuda.get_device_properties(0), "L2_cache_size") else 32 << 20
    n = max(2, min(64, 3 * cache // size + 1)) if op.spec["cache"] == "cold" else max(2, min(4, cache // 2 // size))
    return [args] + [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(n - 1)]


def calls(f, sets, n):
    """A function that calls f so many times, with as many results alive as there are sets."""

    def run():
        kept = collections.deque(maxlen=max(1, len(sets) - 1))
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


def timed(f, sets):
    """The calls of one sample on a CPU, and their number."""
    calls(f, sets, len(sets))()
    each = min(clocked(calls(f, sets, len(sets))) for _ in range(3)) / len(sets)
    n = len(sets) * max(1, min(MOST_CALLS // len(sets), math.ceil(LEAST_US / each / len(sets))))
    return calls(f, sets, n), n


def clocked(run):
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / 1e3


def race(runs, sample, rounds=ROUNDS):
    """Microseconds a call of what takes turns, in the rounds' order: runs has a function and its number of calls by name."""
    samples = {name: [] for name in runs}
    begun = time.monotonic()
    for turn in range(rounds + 2):
        if turn >= FEWEST + 2 and time.monotonic() - begun > LONGEST:
            break
        for name in random.sample(sorted(samples), len(samples)):
            run, n = runs[name]
            us = sample(run) / n
            if turn >= 2:
                samples[name].append(us)
    return samples


def beside(op, args, rounds=ROUNDS):
    """Samples of evotune's kernel and of PyTorch's formula, in microseconds, in pairs."""
    cuda = args[0].is_cuda
    use = _operators().use
    rotating = sets(op, args, cuda)

    def ours(*a):
        return op.call(*a)

    with torch.no_grad():
        if cuda:
            with use("kernels"):
                runs = {"ours": graphed(ours, rotating)}
            runs["theirs"] = graphed(op.pytorch, rotating)
            return race(runs, lambda run: once(run, True), rounds)
        with use("kernels"):
            return race({"ours": timed(ours, rotating), "theirs": timed(op.pytorch, rotating)}, clocked, rounds)


def _sizes(op, what):
    """Dimensions of what a caller asks to be measured: arguments of the operator, or sizes by dimension."""
    if not isinstance(what, dict):
        tensors, args, _ = op.split(what)
        return dict(zip(op.spec["dims"], _operators().ops._dims(op.name, tensors, args)))
    if set(what) != set(op.spec["dims"]):
        raise ValueError(f"evotune::{op.name} has the dimensions {', '.join(op.spec['dims'])}, not {', '.join(what)}")
    return {d: int(what[d]) for d in op.spec["dims"]}


def faster(ours, theirs):
    """Whether samples, taken in pairs, show that ours is faster; and the part of the rounds in which it was."""
    n, wins = len(ours), sum(a < b for a, b in zip(ours, theirs))
    chance = sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n
    return statistics.median(ours) <= MARGIN * statistics.median(theirs) and chance < CHANCE, wins / n


def measure(op=None, what=None, rounds=ROUNDS):
    """Times an operator beside PyTorch and keeps what was found, from now on and for later processes.

    op is an operator or its name; None for all. what is a list of shapes, as dictionaries of dimensions, or of
    the operator's arguments; None for the shapes that kernels were tuned for. Returns a dictionary for each
    shape that a kernel computes and PyTorch too: ours and theirs are medians in nanoseconds."""
    table = _operators()
    ops = list(table.operators().values()) if op is None else [table.find(op)]
    device = "cuda" if table.CUDA else "cpu"
    rows = []
    for op in ops:
        if op.forward is None:
            continue
        for one in [dict(zip(op.spec["dims"], d)) for d in op.spec["tuned"]] if what is None else what:
            dims = _sizes(op, one)
            candidate = _operators().ops._candidate(op.name, list(dims.values()))
            if not candidate:
                continue
            samples = beside(op, op.arguments(dims, device), rounds)
            ours, theirs = (statistics.median(samples[k]) for k in ("ours", "theirs"))
            is_faster, share = faster(samples["ours"], samples["theirs"])
            row = {
                "op": op.name, "kernel": op.kernel, "dims": ",".join(f"{d}={n}" for d, n in dims.items()), "device": _operators().ops._device(),
                "candidate": candidate, "ours": ours * 1e3, "theirs": theirs * 1e3, "share": share, "decision": "evotune" if is_faster else "PyTorch",
            }
            _operators().ops._measured(op.name, row["device"], list(dims.values()), candidate, row["ours"], row["theirs"], share, is_faster)
            rows.append(row)
            if device == "cuda":
                torch.cuda.empty_cache()
    _store(rows)
    return rows


def table(rows):
    """Rows of measure as lines."""
    lines = [["operator", "shape", "kernel", "evotune us", "PyTorch us", "ratio", "faster in", "called"]]
    for r in rows:
        lines.append([r["op"], r["dims"], r["candidate"], f"{r['ours'] / 1e3:.2f}", f"{r['theirs'] / 1e3:.2f}", f"{r['ours'] / r['theirs']:.3f}", f"{r['share']:.0%}", r["decision"]])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(text.ljust(w) if i < 3 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths))) for line in lines]


def main():
    """The command python3 -m evotune_torch."""
    options = argparse.ArgumentParser(prog="python3 -m evotune_torch")
    commands = options.add_subparsers(dest="command", required=True)
    for name, text in (("measure", "times operators beside PyTorch; the faster one is called from then on"), ("explain", "says who would compute a shape, and why")):
        c = commands.add_parser(name, help=text)
        c.add_argument("operator", nargs="?")
        c.add_argument("shape", nargs="*", help="such as ROWS=4096,COLS=1024; default: those that kernels were tuned for")
        c.add_argument("--rounds", type=int, default=ROUNDS)
    options = options.parse_args()
    operators = _operators()
    try:
        op = operators.find(options.operator) if options.operator else None
        shapes = [dict((k, int(v)) for k, _, v in (d.partition("=") for d in s.split(","))) for s in options.shape] or None
        if options.command == "measure":
            rows = measure(op and op.name, shapes, options.rounds)
            print("\n".join(table(rows)) if rows else "nothing was measured: no operator has both a kernel for this device and a formula of PyTorch")
            return
        device = "cuda" if operators.CUDA else "cpu"
        for o in [op] if op else operators.operators().values():
            for dims in shapes or [dict(zip(o.spec["dims"], d)) for d in o.spec["tuned"]]:
                print(operators.explain(o.name, *o.arguments(_sizes(o, dims), device)))
    except (ValueError, OSError) as e:
        sys.exit(f"evotune_torch: {e}")
