"""Tests of the operators, whatever they are: python3 test_ops.py [-v]. On the GPU for a library for GPUs, else on the CPU.

Each operator is held against PyTorch's formula in double precision, at the shapes of its definition; one without
a formula against itself alone."""

import copy
import math
import pathlib
import subprocess
import sys
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import evotune_torch  # noqa: E402

operators = evotune_torch._operators

torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
DEVICE = "cuda" if evotune_torch.CUDA else "cpu"
LARGEST = 1 << 24  # elements of any tensor that is compared
# A formula of several operations rounds between them, which a kernel does not.
LOOSER = {"kernels": 1, "pytorch": 4}
# How far PyTorch's own results in these types may be off.
TYPES = {torch.float16: 5e-2, torch.float32: 1e-3, torch.float64: 1e-9, torch.bfloat16: 3e-1}
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")  # of opcheck
OPS = operators.operators()


def dims_of(op, sizes):
    return dict(zip(op.spec["dims"], sizes))


def shapes(op):
    """The definition's shapes that are not too large."""
    for use in ("sanitize", "verify", "tune"):
        for sizes in op.spec["shapes"][use]:
            axes = op.spec["axes"](sizes)
            if all(math.prod(a) <= LARGEST for list_ in axes for a in list_):
                yield dims_of(op, sizes)


def computed(op):
    """The small shapes that a kernel computes."""
    return [d for d in shapes(op) if operators.ops._candidates(op.name, list(d.values()))]


def tensors(op, args):
    return list(args[: len(op.inputs)])


def wide(args):
    return [a.double() if isinstance(a, torch.Tensor) and (a.is_floating_point()) else a for a in args]


def exact(op, args):
    """The results in double precision; None where nothing computes them."""
    if op.forward is None:
        return None
    # A formula's own way in double precision: PyTorch's fused ones have none for some types.
    before = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if before:
        torch.nn.functional.scaled_dot_product_attention = plain_attention
    try:
        got = op.pytorch(*wide(args))
    finally:
        if before:
            torch.nn.functional.scaled_dot_product_attention = before
    return [got] if isinstance(got, torch.Tensor) else list(got)


def plain_attention(q, k, v, attn_mask=None, is_causal=False, enable_gqa=False):
    if enable_gqa:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    if attn_mask is not None:
        s = s.masked_fill(~attn_mask, -math.inf)
    return torch.softmax(s, -1) @ v


def results(got):
    return [got] if isinstance(got, torch.Tensor) else list(got)


def error(got, want, partly=False, rounding=0.0, units=0.0):
    """The largest difference relative to the root mean square of what is wanted. With partly, elements where
    that is NaN are no part of the answer; others must be most of it. Rounding is how much of each element may be lost
    in its type, and does not count. An element within units of the largest power of two that is not above it is right."""
    got, want = got.double(), want.double()
    if partly:
        written = ~want.isnan()
        if written.sum().item() * 2 < want.numel():
            return math.nan
        got, want = got[written], want[written]
    if want.numel() == 0:
        return 0.0
    off = ((got - want).abs() - rounding * want.abs()).clamp(min=0)
    if units:
        off = torch.where(off <= units * torch.ldexp(torch.ones_like(want), torch.frexp(want).exponent - 1), torch.zeros_like(off), off)
    worst = off.max().item()
    return worst and worst / max(want.square().mean().sqrt().item(), 1e-30)


class Operators(unittest.TestCase):
    def each(self, formula=False):
        return [op for op in OPS.values() if not op.unmade and computed(op) and (op.forward or not formula)]

    def small(self, op, seed=1, dtype=None):
        return op.arguments(computed(op)[0], DEVICE, seed, dtype)

    def compare(self, op, args, got, tolerance=0, looser=1):
        want = exact(op, args)
        if want is None:
            return
        for spec, g, w in zip(op.outputs, results(got), want):
            self.assertEqual(g.shape, w.shape)
            self.assertLessEqual(error(g, w, spec["unwritten"], units=spec["units"]), max(tolerance, looser * spec["tolerance"], 1e-6), spec["name"])

    def same(self, op, args, got, want):
        """Of two calls with the same inputs: the same bits, unless the definition asks for less."""
        exactly = exact(op, args) if any(spec["unwritten"] for spec in op.outputs) else None
        for i, (spec, g, w) in enumerate(zip(op.outputs, results(got), results(want))):
            self.assertEqual((g.shape, g.dtype), (w.shape, w.dtype))
            if exactly is not None and spec["unwritten"]:
                g, w = (torch.where(exactly[i].isnan(), torch.zeros_like(t), t) for t in (g, w))
            if spec["repeat"]:
                self.assertLessEqual(error(g, w), spec["repeat"])
            else:
                self.assertTrue(torch.equal(g.to(torch.float64), w.to(torch.float64)), spec["name"])

    def test_parity(self):
        """Kernels and formulas against double precision, at all shapes of the definition."""
        for way in ("kernels", "pytorch"):
            for op in OPS.values():
                for dims in shapes(op) if not op.unmade else []:
                    if op.forward is None and dims not in computed(op):
                        continue
                    with self.subTest(op=op.name, dims=dims, way=way), evotune_torch.use(way):
                        args = op.arguments(dims, DEVICE)
                        kept = [t.clone() for t in tensors(op, args)]
                        self.compare(op, args, op.call(*args), looser=LOOSER[way])
                        self.assertTrue(all(torch.equal(a.double(), b.double()) for a, b in zip(args, kept)), "an input was changed")

    def test_not_run(self):
        """What no test calls, because nothing here makes its inputs."""
        for op in OPS.values():
            with self.subTest(op=op.name):
                if op.unmade:
                    self.skipTest(op.unmade)

    def test_layouts(self):
        """Views with gaps, at odd addresses, and with other leading axes."""
        for op in self.each():
            with self.subTest(op=op.name), evotune_torch.use("kernels"):
                args = self.small(op)
                want = op.call(*args)
                ts, rest = tensors(op, args), args[len(op.inputs) :]
                gaps = [torch.stack([t, t], -1)[..., 0] for t in ts]
                self.same(op, args, op.call(*gaps, *rest), want)
                shifted = [torch.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape) for t in ts]
                self.same(op, args, op.call(*shifted, *rest), want)
                if op.inputs[0]["leads"]:
                    lead = [t[None] if s["leads"] else t for t, s in zip(ts, op.inputs)]
                    self.same(op, args, [t[0] if s["leads"] else t for t, s in zip(results(op.call(*lead, *rest)), op.outputs)], want)

    def test_hands_over_layouts(self):
        """A view that a kernel could only take as a copy is PyTorch's, if nobody asks for kernels."""
        for op in self.each(formula=True):
            with self.subTest(op=op.name):
                args = self.small(op)
                gaps = [torch.stack([t, t], -1)[..., 0] for t in tensors(op, args)] + args[len(op.inputs) :]
                self.compare(op, args, op.call(*gaps), looser=LOOSER["pytorch"])
                self.assertIn("PyTorch computes this", evotune_torch.explain(op.call, *gaps))
                self.assertIn("contiguous", evotune_torch.explain(op.call, *gaps))

    def test_other_types(self):
        for op in self.each(formula=True):
            specs = op.inputs + op.outputs
            if op.flat or len({s["dtype"] for s in specs}) > 1 or not specs[0]["dtype"].is_floating_point:
                continue  # others are errors there, see test_refuses
            for dtype, tolerance in TYPES.items():
                if DEVICE == "cpu" and dtype in (torch.float16, torch.bfloat16):
                    continue  # older versions lack them there
                with self.subTest(op=op.name, dtype=dtype):
                    args = self.small(op, dtype=dtype)
                    got = op.call(*args)
                    self.assertEqual(results(got)[0].dtype, dtype)
                    self.compare(op, args, got, tolerance)

    def test_refuses(self):
        for op in self.each():
            args = self.small(op)
            n = len(op.inputs)
            fails = []
            for i, spec in enumerate(op.inputs):
                # a leading axis may be missing, and the others not
                if len(spec["axes"]) - spec["leads"] > 0:
                    fails.append((f"too few axes of {i}", [a.flatten()[0] if j == i else a for j, a in enumerate(args)]))
                if n > 1:
                    other = torch.float64 if spec["dtype"] != torch.float64 else torch.float32
                    fails.append((f"another type of {i}", [a.to(other) if j == i else a for j, a in enumerate(args)]))
                    # twice as long where it meets the first input
                    shared = [x for x, a in enumerate(spec["axes"]) if i > 0 and a in op.inputs[0]["axes"]]
                    fails += [(f"axis {x} of {i}", [torch.cat([a, a], x) if j == i else a for j, a in enumerate(args)]) for x in shared]
            fails.append(("integers", [a.to(torch.int16) if isinstance(a, torch.Tensor) else a for a in args]))
            for what, bad in fails:
                with self.subTest(op=op.name, what=what), self.assertRaisesRegex((RuntimeError, NotImplementedError), f"evotune::{op.name}"):
                    op.call(*bad)
                with self.subTest(op=op.name, what=what + ", explained"):
                    self.assertIn("an error", evotune_torch.explain(op.name, *bad))

    def test_gradients(self):
        """Against PyTorch's derivatives of the formula in double precision."""
        for op in self.each(formula=True):
            if not op.differentiable:
                continue
            for way in ("kernels", "pytorch"):
                with self.subTest(op=op.name, way=way), evotune_torch.use(way):
                    args = self.small(op)
                    fine = wide([a.clone() if isinstance(a, torch.Tensor) else a for a in args])
                    for list_ in (args, fine):
                        for t in tensors(op, list_):
                            t.requires_grad_(t.is_floating_point())
                    got = results(op.call(*args))
                    want = exact(op, fine)
                    weights = [torch.randn(w.shape, dtype=torch.float64, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(7)).to(g.dtype) for g, w in zip(got, want)]
                    torch.autograd.backward(got, weights)
                    grads = torch.autograd.grad(want, [t for t in tensors(op, fine) if t.requires_grad], [w.double() for w in weights])
                    for t, g in zip([t for t in tensors(op, args) if t.requires_grad], grads):
                        self.assertEqual((t.grad.dtype, t.grad.shape), (t.dtype, t.shape))
                        # Rounding to 16 bits alone moves the few large elements of a cross-entropy's derivative by a fifth of the root mean square.
                        self.assertLessEqual(error(t.grad, g, rounding=torch.finfo(t.dtype).eps / 2), max(TYPES.get(t.dtype, 3e-1) / 5, op.outputs[0]["tolerance"]))

    def test_no_derivative(self):
        for op in self.each():
            with self.subTest(op=op.name):
                args = [a.requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in self.small(op)]
                if not op.differentiable:
                    with self.assertRaisesRegex(RuntimeError, "no derivative"):
                        op.call(*args)
                elif len(op.outputs) == 1:
                    y = op.call(*args)
                    with self.assertRaisesRegex(RuntimeError, "no second derivative"):
                        torch.autograd.grad(y.sum() * y.sum(), [t for t in tensors(op, args) if t.requires_grad], create_graph=True, allow_unused=True)
                with torch.no_grad():
                    self.assertFalse(any(t.requires_grad for t in results(op.call(*args))))

    def test_meta(self):
        for op in self.each():
            for dims in computed(op):
                with self.subTest(op=op.name, dims=dims):
                    args = op.arguments(dims, DEVICE)
                    got = results(op.call(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)))
                    for g, w in zip(got, results(op.call(*args))):
                        self.assertEqual((g.shape, g.dtype, g.stride(), g.device.type), (w.shape, w.dtype, w.stride(), "meta"))

    def test_opcheck(self):
        if not hasattr(torch.library, "opcheck"):
            self.skipTest("this PyTorch has no torch.library.opcheck")
        for op in self.each():
            for grad in [False, True] if op.differentiable else [False]:
                for way in ("kernels", "measured"):
                    with self.subTest(op=op.name, grad=grad, way=way), evotune_torch.use(way):
                        args = [a.requires_grad_(grad and a.is_floating_point()) if isinstance(a, torch.Tensor) else a for a in self.small(op)]
                        checks = list(CHECKS)
                        # PyTorch cannot multiply 8-bit floating point, by which opcheck looks for inputs that are written.
                        if any(s["dtype"].itemsize == 1 and s["dtype"].is_floating_point for s in op.inputs):
                            checks.remove("test_schema")
                        # It compares two calls, and what is not written differs.
                        if any(s["unwritten"] for s in op.outputs):
                            checks.remove("test_aot_dispatch_dynamic")
                        torch.library.opcheck(op.call.default, tuple(args), test_utils=checks)

    def test_compile(self):
        if not hasattr(torch, "compile"):
            self.skipTest("this PyTorch has no torch.compile")
        for op in self.each():
            with self.subTest(op=op.name), evotune_torch.use("kernels"):
                torch._dynamo.reset()
                args = self.small(op)
                compiled = torch.compile(lambda *a, f=op.call: [t.to(torch.float32) + 1 for t in results(f(*a))], fullgraph=True)
                for g, w, spec in zip(compiled(*args), results(op.call(*args)), op.outputs):
                    if not spec["unwritten"]:
                        self.assertLessEqual(error(g, w.to(torch.float32) + 1), max(spec["repeat"], 1e-6))
                if op.differentiable:
                    ones = [a.clone().requires_grad_(a.is_floating_point()) if isinstance(a, torch.Tensor) else a for a in args]
                    twos = copy.copy([a.detach().clone().requires_grad_(a.is_floating_point()) if isinstance(a, torch.Tensor) else a for a in args])
                    sum(t.sum() for t in compiled(*ones)).backward()
                    sum((t.to(torch.float32) + 1).sum() for t in results(op.call(*twos))).backward()
                    for a, b in zip(tensors(op, ones), tensors(op, twos)):
                        if a.requires_grad:
                            self.assertLessEqual(error(a.grad, b.grad), 1e-2)

    def test_graph(self):
        if DEVICE != "cuda":
            self.skipTest("CUDA graphs are of GPUs")
        evotune_torch.prepare()
        for way in ("kernels", "pytorch"):
            for op in self.each():
                dims = computed(op)[-1]
                with self.subTest(op=op.name, dims=dims, way=way), evotune_torch.use(way):
                    args = op.arguments(dims, DEVICE)
                    side = torch.cuda.Stream()
                    side.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(side):
                        op.call(*args)
                    torch.cuda.current_stream().wait_stream(side)
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        got = op.call(*args)
                    for seed in (2, 3):
                        for old, new in zip(args, op.arguments(dims, DEVICE, seed)):
                            if isinstance(old, torch.Tensor):
                                old.copy_(new)
                        graph.replay()
                        torch.cuda.synchronize()
                        self.compare(op, args, got, looser=LOOSER[way])

    def test_streams(self):
        """Calls on several streams do not share a workspace."""
        if DEVICE != "cuda":
            self.skipTest("streams are of GPUs")
        for op in self.each():
            with self.subTest(op=op.name), evotune_torch.use("kernels"):
                args = self.small(op)
                torch.cuda.synchronize()
                streams = [torch.cuda.Stream() for _ in range(4)]
                got = []
                for _ in range(8):
                    for s in streams:
                        with torch.cuda.stream(s):
                            got.append(op.call(*args))
                torch.cuda.synchronize()
                for g in got:
                    self.compare(op, args, g)

    def test_other_device(self):
        """A tensor on the other device is PyTorch's, or an error that says so."""
        if DEVICE != "cuda":
            self.skipTest("the CPU is what this library is for")
        for op in self.each():
            args = op.arguments(computed(op)[0], "cpu")
            with self.subTest(op=op.name):
                self.assertIn(" cpu", evotune_torch.explain(op.call, *args))

    def test_warns_once(self):
        for op in self.each(formula=True)[:1]:
            program = (
                f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
                "import torch, evotune_torch\n"
                f"op = evotune_torch._operators.find({op.name!r})\nargs = op.arguments({computed(op)[0]!r}, {DEVICE!r})\n"
                "gaps = [torch.stack([t, t], -1)[..., 0] if isinstance(t, torch.Tensor) else t for t in args]\n"
                "for _ in range(3): op.call(*gaps)\n"
            )
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((done.stdout + done.stderr).count(f"evotune::{op.name}: PyTorch computes this"), 1, done.stderr)


if __name__ == "__main__":
    for op in OPS.values():
        if op.unmade:
            print(op.unmade, file=sys.stderr)
    unittest.main()
