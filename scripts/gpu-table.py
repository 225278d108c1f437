#!/usr/bin/env python3
"""Makes docs/evidence/h200/table.json: every kernel for Hopper at its shapes, beside what it is
measured against, with what Nsight Compute counted of it. It runs on a machine with the GPU, from the root of the repository, with the
programs that scripts/gpu-records.sh build has put into bin/, and needs no Go there:

    scripts/gpu-table.py DIR [--time 20s] [--only gemm:4096,linear] [--store FILE] [-- FLAGS OF tune run]

Every row is a campaign, whose finals give both times: medians of fresh processes, by turns. A
store that has earlier winners is searched from them. What has no winner is in the table with the
reason, and no time. DIR/table.json keeps the rows that this run does not make again. With --time 0
nothing is run: the table is made of the finals that the store has. With --pytorch each winner is
also launched beside PyTorch's operators, in one process: others.pytorch is the fastest of these, with
cudnn, flash and torch.compile where there are such, evotune_in_pytorch_us what the winner takes there,
and copy_share its bytes per second over those of a copy. What DIR/evidence-KERNEL-SHAPE.json has of an
earlier comparison of the same genome is taken from there, without a GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TUNE = ROOT / "bin" / "tune"


def kernels(only):
    """The kernels with an implementation for GPUs that are named in only, or else those for sm_90a, and their tuned shapes there."""
    named = {o.partition(":")[0] for o in only}
    for folder in sorted((ROOT / "kernels" / "templates").iterdir()):
        file = folder / "kernel.toml"
        if not file.exists() or (folder.name not in named if named else "hopper" not in file.read_text()):
            continue
        d = json.loads(run("kernels", "show", folder.name, "--json").stdout)
        problem = {**d["problem"], **(d.get("variants") or {}).get("cuda", {})}
        yield d["name"], [s["name"] for s in problem["shapes"] if s["use"] == "tune"], problem["buffers"][0]["dtype"]


def run(*args):
    p = subprocess.run([TUNE, *args], capture_output=True, text=True, check=False)
    if p.returncode not in (0, 1):
        print(f"tune {' '.join(args)}: status {p.returncode}: {p.stderr.strip()[-300:]}", file=sys.stderr)
    return p


def row(kernel, shape, dtype, args):
    out = {"operator": kernel, "shape": shape, "dtype": dtype, "evotune_us": None, "others": {}, "from": "finals"}
    p = None
    if args.time != "0":
        p = run("run", kernel, "--backend", "cuda", "--shape", shape, "--time", args.time, "--store", args.store, *args.more)
        (args.dir / f"{kernel}-{shape}.txt").write_text(p.stdout + p.stderr)
    best = run("best", kernel, "--shape", shape, "--proven", "--top", "100", "--store", args.store, "--format", "json")
    list_ = json.loads(best.stdout) if best.stdout.strip().startswith("[") else []
    # No nearest answer, and none of a kernel that has changed since.
    list_ = [b for b in list_ if b["shapes"] == [shape] and b["measured"] == "finals" and not b.get("kernel_changed")]
    if not list_:
        out["missing"] = ((p.stderr or p.stdout).strip().splitlines() if p else [])[-1:] or ["no winner"]
        return out if p else None
    b = list_[0]
    out["evotune_us"] = round(b["median_ns"] / 1e3, 3)
    out["speedup"] = round(b["speedup"], 4)
    if b.get("slower"):
        out["slower"] = round(b["slower"], 4)
    shown = run("show", b["candidate"], "--store", args.store, "--json")
    finals = json.loads(shown.stdout).get("finals", {}) if shown.returncode == 0 else {}
    evidence = finals.get("evidence", [])
    # A vendor's routine says in the evidence what it ran.
    said = [e["detail"] for e in evidence if e["check"] == f"baseline {shape}"]
    against = "cublaslt" if any("cublasLt" in s for s in said) else "cudnn" if any("cuDNN" in s for s in said) else "baseline"
    out["others"][against] = round(b["baseline_ns"] / 1e3, 3)
    out |= {"baseline_ran": said[0]} if said else {}
    out["ncu"] = {e["check"]: round(e["value"], 1) for e in evidence if e.get("unit") == "%" and "limit" not in e and "value" in e}
    for t in finals.get("timings", []):
        if t["shape"] == shape and t.get("conditions"):
            out["conditions"] = t["conditions"]
    out["device"], out["candidate"], out["genome"] = b["device_name"], b["candidate"], b["encoding"]
    if args.pytorch:
        beside(out, b["candidate"], args)
    return out


def beside(out, candidate, args):
    """Adds the times of PyTorch's process."""
    folder = args.dir / f"evidence-{out['operator']}-{out['shape']}"
    file = folder.with_suffix(".json")
    found = json.loads(file.read_text())["results"][0] if file.exists() else {}
    if found.get("genome") != out["genome"]:
        made = run("evidence", candidate, "--store", args.store, "--out", folder, "--force")
        p = subprocess.run([sys.executable, ROOT / "bench" / "pytorch" / "compare.py", "--json", file, folder], capture_output=True, text=True, check=False)
        if p.returncode:
            print(f"{folder.name}: {(made.stderr + p.stdout + p.stderr).strip()[-300:]}", file=sys.stderr)
            return
        found = json.loads(file.read_text())["results"][0]
    times = {c["name"]: c["median_us"] for c in found["contenders"] if "median_us" in c and not c["name"].startswith("copy")}
    out["evotune_in_pytorch_us"] = round(times.pop("evotune"), 3)
    for name, prefix in (("pytorch", ""), ("cudnn", "SDPA cuDNN"), ("flash", ("SDPA flash", "flash")), ("torch.compile", "torch.compile")):
        mine = [t for n, t in times.items() if n.startswith(prefix)]
        if mine:
            out["others"].setdefault(name, round(min(mine), 3))  # finals count for more
    if "copy_share" in found:
        out["copy_share"] = round(found["copy_share"], 3)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--time", default="20s", help="of every campaign")
    p.add_argument("--only", default="", help="kernels, or kernel:shape, with commas between")
    p.add_argument("--store", default="", help="default DIR/table.db")
    p.add_argument("--pytorch", action="store_true", help="launch winners beside PyTorch's operators")
    given, more = sys.argv[1:], []
    if "--" in given:  # argparse would take what follows for positional arguments of its own
        given, more = given[: given.index("--")], given[given.index("--") + 1 :]
    args = p.parse_args(given)
    args.more = more
    args.dir.mkdir(parents=True, exist_ok=True)
    args.store = args.store or str(args.dir / "table.db")
    file = args.dir / "table.json"
    rows = {(r["operator"], r["shape"]): r for r in json.loads(file.read_text())} if file.exists() else {}
    only = set(filter(None, args.only.split(",")))
    for kernel, shapes, dtype in kernels(only):
        for shape in shapes:
            if only and kernel not in only and f"{kernel}:{shape}" not in only:
                continue
            r = row(kernel, shape, dtype, args)
            if not r:
                continue
            rows[kernel, shape] = r
            file.write_text(json.dumps([rows[k] for k in sorted(rows)], indent=1) + "\n")
            other = next(iter(r["others"].items()), ("", None))
            print(f"{kernel:16} {shape:18} {r['evotune_us']} us, {other[0]} {other[1]} us, {r.get('speedup', '')} {r.get('missing', '')}", flush=True)


if __name__ == "__main__":
    main()
