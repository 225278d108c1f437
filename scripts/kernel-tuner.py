#!/usr/bin/env python3
"""Tunes Kernel Tuner's own examples with evotune, unmodified, and sweeps their spaces beside.

    scripts/kernel-tuner.py DIR [vector_add stencil convolution matmul] [--time 150s] [--sample 300]

DIR is examples/cuda of Kernel Tuner's repository, which is not a part of this one. Each example is
run as it is, but its call of tune_kernel goes to evotune.from_kernel_tuner. convolution gets a filter
of 17 x 17 only: its other sizes compute something else. matmul gets a tolerance of 1e-4: a sum of 4,096
products in float was 1.5e-5 from the one in double precision, more than the default of 1e-5. First `tune sweep` measures the space, or a
sample of it, through the same stages. In the end a line for each example says how far the winner is
behind the best of both: ratios to the same baseline, which both campaigns measure by turns with
every candidate. It takes bin/tune, a GPU for more than --lint, and a python3 with NumPy.
"""
import argparse
import contextlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("EVOTUNE_TUNE", str(ROOT / "bin" / "tune"))
sys.path.insert(0, str(ROOT / "python" / "src"))
import evotune  # noqa: E402

NAMES = ["vector_add", "stencil", "convolution", "matmul"]
FIXED = {"convolution": dict(filter_height=[17], filter_width=[17])}
TOLERANCE = {"matmul": {"f32": 1e-4}}


class Called(Exception):
    """Ends an example where it calls tune_kernel."""


def kernel_of(folder, name):
    """What the example gives to tune_kernel, as a kernel of evotune."""
    found = []

    def tune_kernel(entry, source, size, arguments, params, *rest, **options):
        found.append(evotune.from_kernel_tuner(entry, source, size, arguments, {**params, **FIXED.get(name, {})}, *rest, tolerance=TOLERANCE.get(name), **options))
        raise Called

    stub = types.ModuleType("kernel_tuner")
    stub.tune_kernel = tune_kernel
    stub.file_utils = types.ModuleType("kernel_tuner.file_utils")
    stub.file_utils.store_output_file = stub.file_utils.store_metadata_file = lambda *args, **options: None
    sys.modules.update({"kernel_tuner": stub, "kernel_tuner.file_utils": stub.file_utils})
    with contextlib.chdir(folder), contextlib.suppress(Called):
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    return found[0]


def tune(*args):
    return subprocess.run([os.environ["EVOTUNE_TUNE"], *map(str, args)], capture_output=True, text=True, check=False)


def correct(store, campaign):
    rows = json.loads(tune("query", 'verdict == "correct"', "--campaign", campaign, "--store", store, "--limit", "0", "--format", "json").stdout or "[]")
    return [r["speedup"] for r in rows]


def campaigns(store):
    return json.loads(tune("list", "--store", store, "--json").stdout) if store.exists() else []


def winners(store):
    """How much faster than the baseline the winner of the last search is, by the device's name."""
    return {c["started"]["device_name"]: c["speedup"] for c in campaigns(store) if "finals" in c and c.get("speedup") and "-sweep-" not in c["id"]}


def sweeps(store):
    return [c for c in campaigns(store) if "-sweep-" in c["id"] and c["state"] == "finished"]


def example(folder, name, args, store):
    kernel = kernel_of(folder, name)
    if args.lint:
        print(f"{name}: {kernel.lint() or 'in order'}")
        return
    if not sweeps(store):
        p = tune("sweep", kernel.name, "--kernels", kernel.folder, "--backend", "cuda", "--store", store, "--out", store.with_name(f"{name}.json"), *(["--sample", args.sample] if args.sample else []))
        if p.returncode or not sweeps(store):
            raise evotune.Error(f"the sweep failed: {(p.stderr or p.stdout).strip()[-300:]}")
    swept = sweeps(store)[-1]
    found, device = correct(store, swept["id"]), swept["started"]["device_name"]
    if device not in winners(store):
        print(kernel.tune(time=args.time, store=store, warm_start="off"))  # which knows nothing of the sweep
    speedup = winners(store).get(device)
    if not speedup:
        raise evotune.Error(f"no search has found anything on {device}, where the sweep ran")
    print(f"{name}: winner {speedup:.3f}x the baseline, best of {len(found)} swept {max(found):.3f}x: the winner takes {max(found) / speedup:.3f} times as long ({device})", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    p.add_argument("--time", default="150s", help="of each search; it ends sooner when every configuration is evaluated")
    p.add_argument("--sample", type=int, default=0, help="sweep a sample of this size (0: all)")
    p.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep the stores there; what one of them has finished, with whatever --sample, is not run again")
    p.add_argument("--lint", action="store_true", help="only bring them over, and check the kernels")
    args = p.parse_args()
    status = 0
    for name in args.names:
        with tempfile.TemporaryDirectory() as temp:
            try:
                example(args.dir.resolve(), name, args, (args.keep.resolve() if args.keep else pathlib.Path(temp)) / f"examples-{name}.db")
            except evotune.Error as err:
                print(f"{name}: {err}", flush=True)
                status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
