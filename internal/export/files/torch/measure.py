"""Times operators beside PyTorch, and keeps what was found: python3 -m evotune_torch measure [OPERATOR [DIM=SIZE,... ...]]

All kernels of the library that compute a shape are timed in a few rounds, and the best of them in all.

On a GPU both are captured in CUDA graphs, which have as many calls as last half a millisecond, and replays take
turns in random order, each of which waits for the last: that is the time of the kernels. Inputs rotate as in
campaigns. On a CPU calls take turns in the same way. A shape is evotune's where its median is at most 0.98 of
PyTorch's and it was faster in so many rounds that chance explains them in less than one of a hundred cases (22 of
30, by the sign test); else PyTorch's. Results are in measured.txt of this folder, or in the file that
EVOTUNE_TORCH_MEASURED names, which is read when the package is imported."""

import argparse
import collections
import contextlib
import fcntl
import itertools
import math
import os
import pathlib
import random
import statistics
import sys
import threading
import time
import warnings

import torch

MARGIN, CHANCE = 0.98, 0.01
ROUNDS, LEAST_US, MOST_CALLS = 30, 500, 1024
LONGEST, FEWEST = 20, 7  # seconds after which a shape has no further rounds, if it has had so many
AT_ONCE = 1  # the same where a call waits for it
SCREEN, SCREENED = 3, 1  # rounds, and seconds after which no further candidate is tried
ALIKE = 1.03  # the second candidate is timed in all rounds if its part of PyTorch's time is at most so many times that of the first
LATTICE, LARGEST, SECONDS = 64, 1 << 30, 60  # shapes of an operator between the tuned ones, bytes of such a shape, and seconds for all of them
# Other threads may allocate memory meanwhile.
CAPTURE = {"capture_error_mode": "thread_local"} if torch.__version__ >= (2, 1) else {}
HEAD = "evotune-torch-measured 2"
FIELDS = "# kernel\tdimensions\tdevice\tcandidate\tevotune ns\tPyTorch ns\tfaster in\tPyTorch\tcalled\t."
_sides = {}  # the stream of each device on which graphs are captured
_turns = random.Random()  # a program's own sequence stays as it is
CALLED = {"evotune": 1, "PyTorch": 0, "another": -1}  # another: PyTorch or another candidate, as its line says


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
        warnings.warn(f"{path()}: line 1: expected {HEAD!r}: nothing of it was read: measure again")
        return {}
    found = {}
    for n, line in enumerate(lines[1:], 2):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            kernel, dims, device, candidate, ours, theirs, share, version, decision, dot = fields
            if dot != "." or decision not in CALLED:
                raise ValueError
            found.pop((kernel, dims, device, candidate, version), None)
            found[kernel, dims, device, candidate, version] = (float(ours), float(theirs), float(share), decision)  # the newest last
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
        _operators().ops._measured(op.name, device, [int(n) for n in sizes.values()], candidate, ours, theirs, share, CALLED[decision])


def _store(rows):
    """Adds lines to the file. Several processes may do so at once."""
    text = ["\t".join([r["kernel"], r["dims"], r["device"], c["candidate"], f"{c['ours']:.1f}", f"{c['theirs']:.1f}", f"{c['share']:.4f}", torch.__version__, c["decision"], "."])
            for r in rows for c in [*r["others"], r]]
    try:
        with open(path(), "a+") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.seek(0)
            if f.readline().rstrip("\n") != HEAD:
                f.truncate(0)
                text[:0] = [HEAD, FIELDS]
            f.write("".join(line + "\n" for line in text))
    except OSError as e:
        raise OSError(f"evotune_torch: {path()} could not be written ({e}): name another file in EVOTUNE_TORCH_MEASURED") from None


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
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def graphed(f, sets):
    """The calls of one sample in a CUDA graph, and their number."""
    # The same stream always: cuBLAS keeps a workspace for each.
    device = torch.cuda.current_device()
    if device not in _sides:
        _sides[device] = torch.cuda.Stream()
    side = _sides[device]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        calls(f, sets, len(sets))()
    torch.cuda.current_stream().wait_stream(side)

    def capture(n):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, **CAPTURE):
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


def race(runs, sample, rounds=ROUNDS, longest=LONGEST):
    """Microseconds a call of what takes turns, in the rounds' order: runs has a function and its number of calls by name."""
    samples = {name: [] for name in runs}
    begun = time.monotonic()
    for turn in range(rounds + 2):
        if turn >= FEWEST + 2 and time.monotonic() - begun > longest:
            break
        for name in _turns.sample(sorted(samples), len(samples)):
            run, n = runs[name]
            us = sample(run) / n
            if turn >= 2:
                samples[name].append(us)
    return samples


@contextlib.contextmanager
def _forced(candidate):
    """Calls of this thread take a candidate, whatever is known."""
    before = _operators().ops._force(candidate)
    try:
        yield
    finally:
        _operators().ops._force(before)


@torch.no_grad()
def beside(op, args, rounds=ROUNDS, longest=LONGEST):
    """Microseconds of candidates and of PyTorch's formula, by their names, in pairs: of the best one or two candidates in all rounds,
    and of the others in few, beside PyTorch as well. The best comes first. Each has two lists."""
    cuda = args[0].is_cuda
    rotating = sets(op, args, cuda)
    prepared, sample = (graphed, lambda run: once(run, True)) if cuda else (timed, clocked)

    def run(candidate, f):
        with _forced(candidate):
            again, n = prepared(f, rotating)

        def calls():
            with _forced(candidate):
                again()

        return (again if cuda else calls), n  # a graph has its kernels

    def raced(runs, rounds):
        samples = race({**runs, "": theirs}, sample, rounds, longest)
        return {c: (samples[c], samples[""]) for c in runs}

    def part(c):
        return statistics.median(found[c][0]) / statistics.median(found[c][1])

    theirs = run("", op.pytorch)
    candidates, found, begun = _operators().ops._candidates(op.name, op.sizes(args)), {}, time.monotonic()
    for c in candidates if len(candidates) > 1 else []:
        if found and time.monotonic() - begun > SCREENED:
            break
        try:
            found.update(raced({c: run(c, op.call)}, SCREEN))
        except RuntimeError as e:  # it takes more memory than there is, or a newer driver: the others go on
            warnings.warn(f"evotune::{op.name}: kernel {c} was not measured: {str(e).splitlines()[0]}")
    best = sorted(found, key=part)[:2] or candidates[:1]
    best = [c for c in best if c == best[0] or part(c) <= ALIKE * part(best[0])]
    final = raced({c: run(c, op.call) for c in best}, rounds)
    found.update(final)
    return {c: found[c] for c in [*sorted(final, key=part), *(c for c in found if c not in final)]}


def _sizes(op, what):
    """Dimensions of what a caller asks to be measured: arguments of the operator, or sizes by dimension."""
    if not isinstance(what, dict):
        return dict(zip(op.spec["dims"], op.sizes(what)))
    if set(what) != set(op.spec["dims"]):
        raise ValueError(f"evotune::{op.name} has the dimensions {', '.join(op.spec['dims'])}, not {', '.join(what)}")
    return {d: int(what[d]) for d in op.spec["dims"]}


def faster(ours, theirs):
    """Whether samples, taken in pairs, show that ours is faster; and the part of the rounds in which it was."""
    n, wins = len(ours), sum(a < b for a, b in zip(ours, theirs))
    chance = sum(math.comb(n, k) for k in range(wins, n + 1)) / 2**n
    return statistics.median(ours) <= MARGIN * statistics.median(theirs) and chance < CHANCE, wins / n


def _measured(op, dims, args, rounds=ROUNDS, longest=LONGEST):
    """Measures a shape, which decides from now on."""
    row = {"op": op.name, "kernel": op.kernel, "dims": ",".join(f"{d}={n}" for d, n in dims.items()), "device": _operators().ops._device()}
    found = []
    for candidate, (ours, theirs) in beside(op, args, rounds, longest).items():
        is_faster, share = faster(ours, theirs)
        ours, theirs = (round(statistics.median(x) * 1e3, 1) for x in (ours, theirs))  # as the file has them
        found.append({"candidate": candidate, "ours": ours, "theirs": theirs, "share": share, "decision": "another" if found else "evotune" if is_faster else "PyTorch"})
    for c in found:
        _operators().ops._measured(op.name, row["device"], list(dims.values()), c["candidate"], c["ours"], c["theirs"], c["share"], CALLED[c["decision"]])
    return {**row, **found[0], "others": found[1:]}


_busy, _tried = threading.Lock(), set()


def on_demand(op, args):
    """Measures the shape of a call that waits for it, once, with the call's tensors. Not while another thread measures, and not in a
    backward pass. Whatever goes wrong costs the program a warning only. Returns whether the shape was measured."""
    if getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1 or not _busy.acquire(blocking=False):
        return False
    dims = dict(zip(op.spec["dims"], op.sizes(args)))
    shape = op.name, _operators().ops._device(), *dims.values()
    try:
        if shape in _tried:
            return True  # by another thread just now, or in vain
        _tried.add(shape)
        _store([_measured(op, dims, args, longest=AT_ONCE)])
    except Exception as e:
        warnings.warn(f"evotune::{op.name}: measuring {', '.join(f'{d}={n}' for d, n in dims.items())} failed: {(str(e).strip() or type(e).__name__).splitlines()[0]}")
    finally:
        _busy.release()
    return True


def lattice(op):
    """Shapes between those that kernels were tuned for: each differs from one of these in one size, which is the geometric mean
    of two that follow one another there, rounded to three significant bits."""
    flags = {a["dim"] for a in op.spec["args"] if a["flag"]}
    tuned, found = [tuple(d) for d in op.spec["tuned"]], {}
    for side in (0, 1):
        for i, dim in enumerate(op.spec["dims"]):
            sizes = sorted({t[i] for t in tuned})
            for pair in zip(sizes, sizes[1:]) if dim not in flags else []:
                mean = math.sqrt(pair[0] * pair[1])
                unit = 2 ** max(0, math.floor(math.log2(max(1, mean))) - 2)
                middle = round(mean / unit) * unit
                found.update(((*t[:i], middle, *t[i + 1 :]), None) for t in tuned if t[i] == pair[side] and pair[0] < middle < pair[1])
    usable = (s for s in found if s not in tuned and op.bytes(s) <= LARGEST and _operators().ops._candidates(op.name, list(s)))
    return list(itertools.islice(usable, LATTICE))


def _shapes(ops, what, seconds):
    """Operators and shapes to measure, with the arguments that a caller gave. Those between the tuned ones come last, the operators by turns, while there is time."""
    for op in ops:
        for one in op.spec["tuned"] if what is None else what:
            yield op, dict(zip(op.spec["dims"], one)) if what is None else _sizes(op, one), None if what is None or isinstance(one, dict) else one
    begun = time.monotonic()
    for turn in itertools.zip_longest(*(lattice(op) for op in ops)) if what is None else []:
        for op, sizes in zip(ops, turn):
            if sizes and time.monotonic() - begun < seconds:
                yield op, dict(zip(op.spec["dims"], sizes)), None


def measure(op=None, what=None, rounds=ROUNDS, seconds=SECONDS):
    """Times an operator beside PyTorch and keeps what was found, from now on and for later processes.

    op is an operator or its name; None for all. what is a list of shapes, as dictionaries of dimensions, or of
    the operator's arguments; None for the shapes that kernels were tuned for, and as many between them
    as these seconds allow. All kernels of the library that compute a shape are tried: a few rounds each, and the best one
    or two in all rounds. Returns a dictionary for each shape that a kernel computes and PyTorch too: ours and theirs are
    medians in nanoseconds, of the best kernel. An operator with inputs that nothing here makes is measured on arguments that
    are given, and is left out with a line on stderr where there are none."""
    table = _operators()
    ops = list(table.operators().values()) if op is None else [table.find(op)]
    device = "cuda" if table.CUDA else "cpu"
    rows = []
    given = what is not None and not any(isinstance(one, dict) for one in what)
    for op in ops:
        if op.unmade and not given:
            print(op.unmade, file=sys.stderr)
    for op, dims, args in _shapes([op for op in ops if op.forward and (given or not op.unmade)], what, seconds):
        if _operators().ops._candidates(op.name, list(dims.values())):
            with _busy:
                rows.append(_measured(op, dims, args if op.unmade else op.arguments(dims, device), rounds))
            if device == "cuda":
                torch.cuda.empty_cache()
    if rows:
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
        c.add_argument("shape", nargs="*", help="such as ROWS=4096,COLS=1024; default: those that kernels were tuned for, and for measure others between them")
        c.add_argument("--rounds", type=int, default=ROUNDS)
    options = options.parse_args()
    operators = _operators()
    try:
        op = operators.find(options.operator) if options.operator else None
        shapes = [dict((k, int(v)) for k, _, v in (d.partition("=") for d in s.split(","))) for s in options.shape] or None
        if options.command == "measure":
            rows = measure(op and op.name, shapes, options.rounds)
            print("\n".join(table(rows)) if rows else "nothing was measured: no operator has a kernel for this device, a formula of PyTorch, and inputs that can be made here")
            return
        device = "cuda" if operators.CUDA else "cpu"
        for o in [op] if op else operators.operators().values():
            for dims in shapes or [dict(zip(o.spec["dims"], d)) for d in o.spec["tuned"]]:
                print(operators.explain(o.name, *o.empty(_sizes(o, dims), device)))
    except (ValueError, OSError) as e:
        sys.exit(f"evotune_torch: {e}")
