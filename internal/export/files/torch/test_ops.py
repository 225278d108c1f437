"""Tests of the operators: python3 test_ops.py [-v]. On the GPU for a library for GPUs, else on the CPU."""

import json
import pathlib
import subprocess
import sys
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evotune_torch  # noqa: E402
import theirs  # noqa: E402
from evotune_torch import OPS  # noqa: E402

torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
DEVICE = "cuda" if evotune_torch.CUDA else "cpu"
# Sizes that are no multiple of anything, and kernels that only some sizes are computed of.
ODD = {
    "attention": [dict(B=2, H=3, S=149, D=64, CAUSAL=0), dict(B=1, H=2, S=261, D=64, CAUSAL=1), dict(B=1, H=1, S=1, D=128, CAUSAL=1), dict(B=1, H=2, S=37, D=72, CAUSAL=0)],
    "conv2d": [dict(C=21, H=19, W=37, F=29), dict(C=1, H=1, W=1, F=3)],
    "gemm": [dict(M=129, N=257, K=65), dict(M=1, N=520, K=8), dict(M=300, N=1, K=72)],
    "gemm-batched": [dict(L=3, M=129, N=257, K=65), dict(L=2, M=40, N=520, K=72)],
    "sgemm": [dict(M=131, N=197, K=301, TEAM=1), dict(M=1, N=3, K=1, TEAM=1)],
    "linear": [dict(M=3, N=257, K=65), dict(M=1, N=520, K=72)],
    "transpose": [dict(ROWS=37, COLS=1003), dict(ROWS=1, COLS=129)],
}
ROWS = [dict(ROWS=37, COLS=1003), dict(ROWS=129, COLS=5), dict(ROWS=7, COLS=1), dict(ROWS=3, COLS=16392)]
# Where the problem is beyond the kernels, PyTorch computes in the inputs' type.
TYPES = {torch.float16: 5e-2, torch.float32: 1e-3, torch.float64: 1e-9, torch.bfloat16: 3e-1}
for _name in ("gemm-bf16", "gemm-bias-gelu", "gemm-fp8", "gemm-residual"):
    ODD[_name] = ODD["gemm"]
LARGEST = 1 << 24  # elements of any tensor that is compared


def op_of(name):
    return getattr(torch.ops.evotune, name)


def tuned(kernel):
    for k in json.loads((HERE.parent / "manifest.json").read_text())["kernels"]:
        if k["kernel"] == kernel:
            return [t["dims"] for v in k["variants"] for t in v["timings"]]
    return []


def odd(op):
    return ODD.get(op["kernel"]) or (ROWS if op["dims"] == ("ROWS", "COLS") else [])


class Operators(unittest.TestCase):
    def each(self):
        return [(name, op) for name, op in OPS.items() if op["kernel"] in theirs.EAGER]

    def small(self, op):
        return theirs.arguments(op, odd(op)[0], DEVICE)

    def compare(self, name, op, args, tolerance):
        got = op_of(name)(*args)
        want = theirs.double(op, args)
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(theirs.error(got, want, op.get("unwritten", False)), tolerance)

    def written(self, op, args, got):
        """A result, with zeros where the kernel need not write."""
        if not op.get("unwritten"):
            return got
        return torch.where(theirs.double(op, args).isnan(), torch.zeros_like(got), got)

    def same(self, op, args, got, want):
        """Of two calls with the same inputs: the same bits, unless the definition asks for less."""
        got, want = self.written(op, args, got), self.written(op, args, want)
        if op.get("repeat"):
            self.assertEqual(got.shape, want.shape)
            self.assertLessEqual(theirs.error(got, want.double()), op["repeat"])
        else:
            self.assertTrue(torch.equal(got, want))

    def test_parity(self):
        for name, op in self.each():
            for dims in [*tuned(op["kernel"]), *odd(op)]:
                if any(torch.Size([int(a) if a.isdigit() else dims[a] for a in axes]).numel() > LARGEST for _, _, axes in op["inputs"]):
                    continue
                with self.subTest(op=name, dims=dims):
                    self.compare(name, op, theirs.arguments(op, dims, DEVICE), max(op["tolerance"], 1e-6))

    def test_layouts(self):
        """Views with gaps, at odd addresses, and with other leading axes."""
        for name, op in self.each():
            with self.subTest(op=name):
                args = self.small(op)
                want = op_of(name)(*args)
                tensors, rest = args[: len(op["inputs"])], args[len(op["inputs"]) :]
                gaps = [torch.stack([t, t], -1)[..., 0] for t in tensors]
                self.same(op, args, op_of(name)(*gaps, *rest), want)
                shifted = [torch.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape) for t in tensors]
                self.same(op, args, op_of(name)(*shifted, *rest), want)
                if op["leading"] and len(tensors) == len([1 for _, _, axes in op["inputs"] if op["leading"] in axes]):
                    lead = [t[None] for t in tensors]
                    self.same(op, [*lead, *rest], op_of(name)(*lead, *rest), want[None])

    def test_other_types(self):
        for name, op in self.each():
            dims = odd(op)[0]
            if len({dtype for _, dtype, _ in op["inputs"] + op["outputs"]}) > 1:
                continue  # others are errors there, see test_refuses
            for dtype, tolerance in TYPES.items():
                if DEVICE == "cpu" and dtype in (torch.float16, torch.bfloat16):
                    continue  # older versions lack them there
                with self.subTest(op=name, dtype=dtype):
                    args = theirs.arguments(op, dims, DEVICE, dtype=dtype)
                    self.assertEqual(op_of(name)(*args).dtype, dtype)
                    self.compare(name, op, args, max(tolerance, op["tolerance"]))

    def test_refuses(self):
        for name, op in self.each():
            args = self.small(op)
            n = len(op["inputs"])
            fails = []
            for i in range(n):
                fails.append((f"too few axes of {i}", [a.flatten()[0] if j == i else a for j, a in enumerate(args)]))
                if n > 1:
                    fails.append((f"another type of {i}", [a.double() if j == i else a for j, a in enumerate(args)]))
                    # twice as long where it meets the first input
                    shared = [x for x, a in enumerate(op["inputs"][i][2]) if i > 0 and a in op["inputs"][0][2]]
                    fails += [(f"axis {x} of {i}", [torch.cat([a, a], x) if j == i else a for j, a in enumerate(args)]) for x in shared]
            fails.append(("integers", [a.long() if isinstance(a, torch.Tensor) else a for a in args]))
            for what, bad in fails:
                with self.subTest(op=name, what=what), self.assertRaisesRegex((RuntimeError, NotImplementedError), f"evotune::{name}"):
                    op_of(name)(*bad)

    def test_no_derivative(self):
        for name, op in self.each():
            with self.subTest(op=name):
                args = [a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in self.small(op)]
                with self.assertRaisesRegex(RuntimeError, "no derivative"):
                    op_of(name)(*args)
                with torch.no_grad():
                    self.assertFalse(op_of(name)(*args).requires_grad)

    def test_empty(self):
        for name, op in self.each():
            if op["dims"] == ("ROWS", "COLS"):
                args = theirs.arguments(op, dict(ROWS=0, COLS=8), DEVICE)
                self.assertEqual(op_of(name)(*args).numel(), 0)

    def test_meta(self):
        for name, op in self.each():
            with self.subTest(op=name):
                args = self.small(op)
                got = op_of(name)(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args))
                want = op_of(name)(*args)
                self.assertEqual((got.shape, got.dtype, got.stride(), got.device.type), (want.shape, want.dtype, want.stride(), "meta"))

    def test_opcheck(self):
        if not hasattr(torch.library, "opcheck"):
            self.skipTest("this PyTorch has no torch.library.opcheck")
        for name, op in self.each():
            with self.subTest(op=name):
                torch.library.opcheck(op_of(name).default, tuple(self.small(op)))

    def test_compile(self):
        if not hasattr(torch, "compile"):
            self.skipTest("this PyTorch has no torch.compile")
        for name, op in self.each():
            with self.subTest(op=name):
                torch._dynamo.reset()
                args = self.small(op)
                compiled = torch.compile(lambda *a, f=op_of(name): f(*a) + 1, fullgraph=True)
                self.same(op, args, compiled(*args), op_of(name)(*args) + 1)

    def test_graph(self):
        if DEVICE != "cuda":
            self.skipTest("CUDA graphs are of GPUs")
        evotune_torch.prepare()
        for name, op in self.each():
            with self.subTest(op=name):
                for dims in [*tuned(op["kernel"])[:1], odd(op)[0]]:
                    args = theirs.arguments(op, dims, DEVICE)
                    side = torch.cuda.Stream()
                    side.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(side):
                        op_of(name)(*args)
                    torch.cuda.current_stream().wait_stream(side)
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        got = op_of(name)(*args)
                    for seed in (2, 3):
                        for old, new in zip(args, theirs.arguments(op, dims, DEVICE, seed)):
                            if isinstance(old, torch.Tensor):
                                old.copy_(new)
                        graph.replay()
                        torch.cuda.synchronize()
                        self.assertLessEqual(theirs.error(got, theirs.double(op, args), op.get("unwritten", False)), max(op["tolerance"], 1e-6), f"{name} {dims}")

    def test_streams(self):
        """Calls on several streams do not share a workspace."""
        if DEVICE != "cuda":
            self.skipTest("streams are of GPUs")
        for name, op in self.each():
            with self.subTest(op=name):
                args = theirs.arguments(op, odd(op)[0], DEVICE)
                want = op_of(name)(*args)
                torch.cuda.synchronize()
                streams = [torch.cuda.Stream() for _ in range(4)]
                got = []
                for _ in range(8):
                    for s in streams:
                        with torch.cuda.stream(s):
                            got.append(op_of(name)(*args))
                torch.cuda.synchronize()
                for g in got:
                    self.assertLessEqual(theirs.error(self.written(op, args, g), self.written(op, args, want).double()), op["tolerance"] * 2)

    def test_fallback_warns_once(self):
        name, op = self.each()[0]
        program = (
            f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
            "import torch, evotune_torch, theirs\n"
            f"args = theirs.arguments(evotune_torch.OPS[{name!r}], {odd(op)[0]!r}, {DEVICE!r}, dtype=torch.float64)\n"
            f"for _ in range(3): torch.ops.evotune.{name}(*args)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((done.stdout + done.stderr).count(f"evotune::{name}: no kernel takes"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
