"""Times the operators beside PyTorch's own: python3 bench.py [--json FILE], python3 bench.py --grid [40], and
python3 bench.py --held-out [40]

Without --grid, on a GPU: kernels at the shapes that they were tuned for. Each figure is the median of many samples, in
microseconds a call, by CUDA events; all that is compared takes turns, in random order, and each sample waits for the last.
In a graph, which has as many calls as last half a millisecond, the time of a call is that of its kernels: that is how
campaigns measure, and inputs and outputs rotate as they do there. Like there the device rests between samples: one that
works without a pause may reach its power limit and lower its clocks. "campaign" is what manifest.json says.

With --grid: as many shapes over all operators, those of the definitions and others around them. First each is measured, as
evotune_torch.measure does, and what was found is kept. Then operators, which now decide for themselves, are timed beside
PyTorch once more, from new samples: those are the figures of the table and of its last lines.

With --held-out: at shapes between those that kernels were tuned for. First the tuned ones are measured, and others between them, none
of which is one of these: operators decide by that. Then each of these shapes is called once as evotune_torch.use("measure") has it,
which measures it, and timed again."""

import argparse
import itertools
import json
import math
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evotune_torch  # noqa: E402

operators = evotune_torch._operators
measuring = evotune_torch._measure

EAGER_CALLS = 20
PARTS = (0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875)  # of the way from one tuned size to the next, on a logarithmic scale
PAUSE = 5e-3  # seconds before a sample of what is held against a campaign
STRUCTURES = 16  # sets of inputs whose structure, such as lengths, decides how long a kernel takes
DEVICE = "cuda" if evotune_torch.CUDA else "cpu"


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
    if op.kernel != "attention":
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


def drawn(op, dims):
    """As many sets of inputs as a campaign rotates through, each drawn by itself."""
    n = len(measuring.sets(op, op.arguments(dims, "cuda"), True))
    if any(i["data"][0] in ("permutation", "offsets", "between", "python") for i in op.inputs):
        n = max(n, STRUCTURES)
    return [op.arguments(dims, "cuda", seed) for seed in range(1, n + 1)]


def rested(run):
    time.sleep(PAUSE)
    return measuring.once(run, True)


def medians(runs, sample):
    """Medians of what takes turns; why there is none stays as it is."""
    samples = measuring.race({n: r for n, r in runs.items() if not isinstance(r, str)}, sample)
    return {n: statistics.median(samples[n]) if n in samples else r for n, r in runs.items()}


def cell(x, digits=2):
    return f"{x:.{digits}f}" if isinstance(x, float) else "-"


def show(table):
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        print("  ".join(text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths))))


def campaigns(manifest):
    """Kernels at the shapes that they were tuned for."""
    rows, columns = [], ["kernel", "shape", "ours eager", "torch eager", "ours graph", "torch graph", "campaign", "graph/campaign"]
    for op in operators.operators().values():
        if not op.forward or op.unmade:
            continue
        ways = {"ours": op.call, "torch": op.pytorch, **others(op)}
        for shape, (dims, campaign) in tuned(manifest, op.kernel).items():
            with torch.no_grad(), evotune_torch.use("kernels"):
                sets = drawn(op, dims)
                usable = {way: attempt(check, f, sets) for way, f in ways.items()}
                graph = medians({way: usable[way] or attempt(measuring.graphed, f, sets) for way, f in ways.items()}, rested)
                eager = medians({way: usable[way] or (measuring.calls(f, sets, EAGER_CALLS), EAGER_CALLS) for way, f in ways.items()}, measuring.once)
            row = {"kernel": op.kernel, "shape": shape, "campaign": campaign}
            for way in ("ours", "torch"):
                row[f"{way} eager"], row[f"{way} graph"] = eager[way], graph[way]
            row["graph/campaign"] = row["ours graph"] / campaign if isinstance(row["ours graph"], float) else None
            row["others"] = {way: {"eager": eager[way], "graph": graph[way]} for way in list(ways)[2:]}
            rows.append(row)
            del sets
            torch.cuda.empty_cache()
    show([columns] + [[r["kernel"], r["shape"], *(cell(r[c]) for c in columns[2:])] for r in rows])
    for r in rows:
        if r["others"]:
            print(f"{r['kernel']} {r['shape']}, PyTorch's backends, eager and in a graph: " + "; ".join(
                f"{n} {cell(o['eager'])} {cell(o['graph'])}" for n, o in r["others"].items()))
        for c in columns[2:6]:
            if isinstance(r[c], str):
                print(f"{r['kernel']} {r['shape']}, {c}: {r[c]}")
    return rows


def around(op):
    """Shapes of an operator: those that its kernels were tuned for, then those that its definition is tuned at, then
    such with one or two sizes doubled or halved, and so on. Flags keep their values."""
    flags = {a["dim"] for a in op.spec["args"] if a["flag"]}
    free = [i for i, d in enumerate(op.spec["dims"]) if d not in flags and op.spec["sources"][i]]
    first = [*op.spec["tuned"], *op.spec["shapes"]["tune"]]
    for steps in itertools.count():
        moves = [m for m in itertools.product(range(-steps, steps + 1), repeat=len(free)) if sum(map(abs, m)) == steps]
        if steps > 8:
            return
        for m in sorted(moves, key=lambda m: (sum(n != 0 for n in m), m[::-1])):
            for sizes in first:
                new = list(sizes)
                for i, n in zip(free, m):
                    new[i] = int(new[i] * 2**n)
                if min(new[i] for i in free) >= 1:
                    yield tuple(new)


def grid(count, shapes):
    """Shapes that kernels compute, the operators by turns. Shapes gives those of an operator."""
    ops = [op for op in operators.operators().values() if op.forward and not op.unmade]
    streams, seen, found = {op: shapes(op) for op in ops}, set(), []
    while streams and len(found) < count:
        for op in list(streams):
            for sizes in streams[op]:
                if (op.name, sizes) in seen:
                    continue
                seen.add((op.name, sizes))
                if op.bytes(sizes) <= measuring.LARGEST and operators.ops._candidates(op.name, list(sizes)):
                    found.append((op, dict(zip(op.spec["dims"], sizes))))
                    break
            else:
                del streams[op]
    return found[:count]


def between(op):
    """Shapes that no kernel was tuned for and that evotune_torch.measure leaves out, whose sizes lie between those of kernels that were: first with one such size,
    then with several. A size there is at one of PARTS, the geometric mean first, rounded as sizes are."""
    flags = {a["dim"] for a in op.spec["args"] if a["flag"]}
    tuned = [tuple(d) for d in op.spec["tuned"]]
    known = {*tuned, *measuring.lattice(op)}

    def unit(lo, hi):
        return 64 if hi - lo > 128 else 8

    inner = []
    for i, d in enumerate(op.spec["dims"]):
        sizes = sorted({t[i] for t in tuned})
        pairs_ = [] if d in flags else [(lo, hi) for lo, hi in zip(sizes, sizes[1:]) if hi >= 16]
        inner.append({lo: [max(lo + 1, min(hi - 1, round(lo ** (1 - part) * hi**part / unit(lo, hi)) * unit(lo, hi))) for part in PARTS] for lo, hi in pairs_})
    for count in range(1, len(inner) + 1):
        for part in range(len(PARTS)):
            for dims in itertools.combinations(range(len(inner)), count):
                for t in tuned:
                    if all(t[i] in inner[i] for i in dims):
                        new = tuple(inner[i][n][part] if i in dims else n for i, n in enumerate(t))
                        if new not in known:
                            yield new


def pairs(op, dims, rounds):
    """Samples of the operator as it decides for itself, and of PyTorch."""
    rotating = measuring.sets(op, op.arguments(dims, DEVICE), evotune_torch.CUDA)
    with torch.no_grad():
        if evotune_torch.CUDA:
            return measuring.race({"ours": measuring.graphed(op.call, rotating), "theirs": measuring.graphed(op.pytorch, rotating)}, lambda run: measuring.once(run, True), rounds)
        return measuring.race({"ours": measuring.timed(op.call, rotating), "theirs": measuring.timed(op.pytorch, rotating)}, measuring.clocked, rounds)


def compared(shapes, rounds):
    """A table of operators, as they decide for themselves, beside PyTorch, and what it comes to."""
    rows = []
    for op, dims in shapes:
        samples = pairs(op, dims, rounds)
        ours, theirs = (statistics.median(samples[k]) for k in ("ours", "theirs"))
        said = evotune_torch.explain(op.name, *op.arguments(dims, DEVICE))
        rows.append({"kernel": op.kernel, "shape": ",".join(f"{d}={n}" for d, n in dims.items()), "operator": ours, "PyTorch": theirs,
                     "speed": theirs / ours, "called": "evotune" if "evotune computes this" in said else "PyTorch", "explained": said})
        if evotune_torch.CUDA:
            torch.cuda.empty_cache()
    show([["kernel", "shape", "operator us", "PyTorch us", "PyTorch/operator", "called"]] +
         [[r["kernel"], r["shape"], cell(r["operator"]), cell(r["PyTorch"]), cell(r["speed"], 3), r["called"]] for r in rows])
    if rows:
        speeds = [r["speed"] for r in rows]
        print(f"{len(rows)} shapes: geometric mean of the speed relative to PyTorch {math.exp(statistics.mean(map(math.log, speeds))):.3f}; "
              f"slowest {min(speeds):.3f}; at least 5% faster at {sum(s >= 1.05 for s in speeds)} of {len(rows)} ({sum(s >= 1.05 for s in speeds) / len(rows):.0%}); "
              f"kernels called at {sum(r['called'] == 'evotune' for r in rows)}")
    return rows


def on_grid(count, rounds, held_out=False):
    shapes, begun = grid(count, between if held_out else around), time.monotonic()
    if held_out:
        known = evotune_torch.measure(rounds=rounds)
        print(f"measured at {len(known)} other shapes, the tuned ones and some between them, in {time.monotonic() - begun:.0f} s:")
    for op, dims in [] if held_out else shapes:
        evotune_torch.measure(op.name, [dims], rounds)
    rows = compared(shapes, rounds)
    if len(rows) < count:
        print(f"only {len(rows)} of {count} shapes: kernels compute no more of them here")
    if held_out:
        with evotune_torch.use("measure"), torch.no_grad():
            pauses = []
            for op, dims in shapes:
                args = op.arguments(dims, DEVICE)
                if evotune_torch.CUDA:
                    torch.cuda.synchronize()
                begun = time.monotonic()
                op.call(*args)
                pauses.append(time.monotonic() - begun)
            print(f"\nmeasured by the first call, as evotune_torch.use(\"measure\") has it, which took {statistics.median(pauses):.2f} s in the median and at most {max(pauses):.2f} s:")
            rows += [{**r, "on demand": True} for r in compared(shapes, rounds)]
    return rows


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("--grid", type=int, nargs="?", const=40, help="this many shapes (default 40)")
    options.add_argument("--held-out", type=int, nargs="?", const=40, help="this many shapes between tuned ones (default 40)")
    options.add_argument("--rounds", type=int, default=measuring.ROUNDS)
    options = options.parse_args()
    if evotune_torch.CUDA and not torch.cuda.is_available():
        sys.exit("bench.py: the library is for GPUs, and PyTorch sees none")
    if not (evotune_torch.CUDA or options.grid or options.held_out):
        sys.exit("bench.py: campaigns' times are compared on GPUs: for a library for processors ask for --grid or --held-out")
    evotune_torch.prepare()
    device = operators.ops._device()
    print(f"{device}, PyTorch {torch.__version__}; microseconds a call")
    for op in operators.operators().values():
        if op.unmade:
            print(op.unmade)
    count = options.held_out or options.grid
    rows = on_grid(count, options.rounds, bool(options.held_out)) if count else campaigns(json.loads((HERE.parent / "manifest.json").read_text()))
    if options.json:
        options.json.write_text(json.dumps({"device": device, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
