"""What test_ops.py cannot know: what the kernels of TestTorchOperators compute, and who is called."""

import contextlib
import copy
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import torch
import torch.nn.functional as F

import bench
import evotune_torch

measuring, operators = evotune_torch._measure, evotune_torch._operators

os.environ["EVOTUNE_TORCH_MEASURED"] = str(pathlib.Path(tempfile.mkdtemp(), "measured.txt"))


def silu_mul(x, scale=0.5):
    d = x.shape[-1] // 2
    return F.silu(x[..., :d]) * x[..., d:] * scale


@contextlib.contextmanager
def slow(name, seconds=0.01):
    """PyTorch's formula of an operator takes so long."""
    op = operators.find(name)
    before = op.forward

    def function(**values):
        time.sleep(seconds)
        return before[0](**values)

    op.forward = (function, before[1])
    try:
        yield
    finally:
        op.forward = before


class Own(unittest.TestCase):
    def test_results(self):
        x = torch.randn(7, 66)
        for way in ("kernels", "pytorch", "measured"):
            with evotune_torch.use(way):
                torch.testing.assert_close(evotune_torch.silu_mul(x), silu_mul(x))
                torch.testing.assert_close(torch.ops.evotune.silu_mul(x.view(7, 1, 66)), silu_mul(x).view(7, 1, 33))
                torch.testing.assert_close(torch.ops.evotune.silu_mul(x[0]), silu_mul(x[0]))
                y = torch.randn(77)
                kept = y.clone()
                torch.testing.assert_close(torch.ops.evotune.add_to(torch.ones(77), y), y + 0.5)
                self.assertTrue(torch.equal(y, kept), "an argument was changed in place")

    def test_scalars(self):
        x = torch.randn(7, 66)
        torch.testing.assert_close(torch.ops.evotune.silu_mul(x, scale=2.0), silu_mul(x, 2.0))
        self.assertIn("scalars", evotune_torch.explain("silu_mul", x, scale=2.0))
        with self.assertRaisesRegex(RuntimeError, "evotune::alone: scale is 2, and the kernels are for 0.5 alone"):
            torch.ops.evotune.alone(torch.randn(8), scale=2.0)

    def test_messages(self):
        x, y = torch.randn(4, 6), torch.randn(6)
        for call, want in (
            (lambda: torch.ops.evotune.silu_mul(torch.randn(4, 7)), r"evotune::silu_mul: x has the shape \[4, 7\], expected \[..., 2\*D\]: axis 1 is 7, which is 2\*D for no D"),
            (lambda: torch.ops.evotune.sgemm(x, torch.randn(5, 3), 1), r"evotune::sgemm: b has the shape \[5, 3\], expected \[K, N\]: axis 0 is 5, expected K = 6 as in a"),
            (lambda: torch.ops.evotune.rmsnorm(x, torch.randn(5)), r"evotune::rmsnorm: w has the shape \[5\], expected \[COLS\]: axis 0 is 5, expected COLS = 6 as in x"),
            (lambda: torch.ops.evotune.rmsnorm(x, y.double()), r"evotune::rmsnorm: w is Double, expected Float"),
            (lambda: torch.ops.evotune.silu_mul(x.double().float(), scale="a"), "scale"),
            (lambda: torch.ops.evotune.conv2d(x, x), r"evotune::conv2d: x has the shape \[4, 6\], expected \[C, H, W\]"),
            (lambda: torch.ops.evotune.alone(torch.randn(6000)), "evotune::alone: no kernel computes N=6000 on this device"),
            (lambda: torch.ops.evotune.alone(torch.randn(9)), "evotune::alone: N/2, an axis of the result Y, is no size at N=9"),
            (lambda: torch.ops.evotune.alone(torch.randn(8).double()), "evotune::alone: x is Double, expected Float$"),
            (lambda: evotune_torch.explain("nothing", x), "evotune_torch has no operator nothing: it has add_to, alone, "),
        ):
            with self.assertRaisesRegex((RuntimeError, ValueError), want):
                call()

    def test_gradients(self):
        """Own derivatives, by finite differences in double precision and against PyTorch's of the same formula."""
        spec = operators.find("silu_mul")
        x = torch.randn(3, 10, dtype=torch.float64, requires_grad=True)
        g = torch.randn(3, 5, dtype=torch.float64)
        (want,) = torch.autograd.grad(silu_mul(x), x, g)
        (got,) = spec.gradients([g], [x.detach()], [silu_mul(x.detach())], [3, 5], [0.5], [True])
        torch.testing.assert_close(got, want)
        a = x.detach().float().requires_grad_()
        for way in ("kernels", "pytorch"):
            with evotune_torch.use(way):
                (got,) = torch.autograd.grad(evotune_torch.silu_mul(a), a, g.float())
            torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)

    def test_some_gradients(self):
        """Of the inputs that need one alone; through what is changed in place."""
        x, w = torch.randn(5, 8), torch.randn(8, requires_grad=True)
        evotune_torch.rmsnorm(x, w).sum().backward()
        self.assertIsNone(x.grad)
        self.assertEqual(w.grad.shape, (8,))
        x, y = torch.randn(9, requires_grad=True), torch.randn(9, requires_grad=True)
        evotune_torch.add_to(x, y).sum().backward()
        torch.testing.assert_close((x.grad, y.grad), (torch.full((9,), 0.5), torch.ones(9)))


class Several(unittest.TestCase):
    def test_another_library(self):
        """A second library, loaded by its path under another name, has its own kernels, decisions and figures."""
        second = pathlib.Path(evotune_torch.__file__).parents[2] / "second" / "torch" / "evotune_torch.py"
        spec = importlib.util.spec_from_file_location("another", second)
        module = sys.modules["another"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x = torch.randn(5, 7)
        with evotune_torch.use("kernels"), module.use("kernels"):
            self.assertIn("kernel c0ffee04", evotune_torch.explain("softmax", x))
            self.assertIn("kernel feed", module.explain(module.softmax, x))
            for op in (evotune_torch.softmax, module.softmax, torch.ops.evotune.softmax):
                torch.testing.assert_close(op(x), torch.softmax(x, -1))
        a = x.clone().requires_grad_()
        module.softmax(a).square().sum().backward()
        b = x.clone().requires_grad_()
        torch.softmax(b, -1).square().sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
        again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(again)
        torch.testing.assert_close(again.softmax(x), torch.softmax(x, -1))


class Decisions(unittest.TestCase):
    def explain(self, op, *args):
        return evotune_torch.explain(op, *args)

    def test_unmeasured(self):
        x = torch.randn(37, 1003)
        self.assertRegex(self.explain(torch.ops.evotune.softmax, x), "^evotune::softmax: PyTorch computes this: ROWS=37, COLS=1003 was not measured beside PyTorch: .* kernel c0ffee04 ")
        self.assertRegex(self.explain(evotune_torch.alone, torch.randn(66)), "^evotune::alone: evotune computes this: kernel beef.. .*: there is no PyTorch formula")
        self.assertIn("no kernel takes tensors of Double", self.explain("softmax", x.double()))
        self.assertIn("not contiguous", self.explain("softmax", x.t()))
        self.assertIn("no kernel computes N=6000", self.explain("add_to", torch.randn(6000), torch.randn(6000)))
        self.assertIn("an error: evotune::softmax: x is Long", self.explain("softmax", x.long()))
        self.assertIn("a tensor is empty", self.explain("softmax", x[:0]))
        with evotune_torch.use("kernels"):
            self.assertIn("evotune computes this: kernel c0ffee04", self.explain("softmax", x))
        self.assertIn("PyTorch computes this", self.explain("softmax", x))

    def test_measured(self):
        """What is measured decides, by its figures; and in the next process as well."""
        shapes = [{"ROWS": 64, "COLS": 64}, {"ROWS": 5, "COLS": 2048}]
        rows = evotune_torch.measure("softmax", shapes, rounds=8)
        self.assertEqual([r["dims"] for r in rows], ["ROWS=64,COLS=64", "ROWS=5,COLS=2048"])
        self.assertIn("ROWS=5,COLS=2048", "\n".join(measuring.table(rows)))
        for row, s in zip(rows, shapes):
            self.assertGreater(min(row["ours"], row["theirs"]), 0)
            self.assertEqual(row["decision"], "evotune" if row["ours"] <= 0.98 * row["theirs"] and row["share"] >= 7.5 / 8 else "PyTorch")
            said = self.explain("softmax", torch.randn(s["ROWS"], s["COLS"]))
            self.assertIn(row["decision"] + " computes this", said)
            self.assertIn(f"{row['ours'] / 1e3:.2f} us against {row['theirs'] / 1e3:.2f} us of PyTorch", said)
        code = "import torch, evotune_torch; print(evotune_torch.explain('softmax', torch.randn(64, 64)))"
        later = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(later.strip(), self.explain("softmax", torch.randn(64, 64)))

    def test_faster(self):
        """By the medians, and by a sign test."""
        for ours, theirs, want in (
            ([1.0] * 30, [2.0] * 30, (True, 1.0)),
            ([1.0] * 30, [1.01] * 30, (False, 1.0)),
            ([1.0] * 22 + [9.0] * 8, [2.0] * 30, (True, 22 / 30)),
            ([1.0] * 21 + [9.0] * 9, [2.0] * 30, (False, 21 / 30)),
            ([1.0] * 6, [2.0] * 6, (False, 1.0)),
            ([1.0] * 7, [2.0] * 7, (True, 1.0)),
            ([2.0] * 30, [1.0] * 30, (False, 0.0)),
        ):
            self.assertEqual(measuring.faster(ours, theirs), want)

    def test_decides(self):
        """A figure that says faster calls the kernel, one that says slower PyTorch; another candidate's says nothing."""
        x = torch.randn(11, 24)
        # PyTorch's formula is replaced, so that it shows who computes.
        op = operators.find("softmax")
        before = op.forward
        op.forward = (lambda X: X * 0 + 7, ["X"])
        try:
            tell = lambda candidate, faster: operators.ops._measured("softmax", operators.ops._device(), [11, 24], candidate, 1e3 if faster else 3e3, 2e3, 1.0 if faster else 0.0, int(faster))
            self.assertEqual(torch.ops.evotune.softmax(x)[0, 0].item(), 7)
            tell("another", True)
            self.assertEqual(torch.ops.evotune.softmax(x)[0, 0].item(), 7)
            tell("c0ffee04", True)
            torch.testing.assert_close(torch.ops.evotune.softmax(x), torch.softmax(x, -1))
            self.assertIn("1.00 us against 2.00 us of PyTorch, measured here", self.explain("softmax", x))
            self.assertEqual(torch.ops.evotune.softmax(x.t().contiguous().t())[0, 0].item(), 7)
            tell("c0ffee04", False)
            self.assertEqual(torch.ops.evotune.softmax(x)[0, 0].item(), 7)
            self.assertIn("was not measured to be faster: 3.00 us against 2.00 us of PyTorch", self.explain("softmax", x))
        finally:
            op.forward = before

    def told(self, op, shape, **parts):
        """Tells of candidates' parts of PyTorch's time at a shape; the best decides."""
        best = min(parts, key=parts.get)
        for candidate, part in parts.items():
            called = -1 if candidate != best else int(part <= 0.98)
            operators.ops._measured(op, operators.ops._device(), list(shape), candidate, part * 1e3, 1e3, 1.0, called)

    def test_between(self):
        """A shape between measured ones is the kernel's where it was clearly faster at the nearest around it."""
        x = torch.randn(3008, 4032)
        for rows, cols in ((2560, 2560), (2560, 5120), (5120, 2560)):
            self.told("softmax", (rows, cols), c0ffee04=0.8)
        self.assertIn("evotune computes this: kernel c0ffee04", self.explain("softmax", x))
        self.assertIn("not measured here, but at the 3 nearest shapes around it, where it took at most 80% of PyTorch's time", self.explain("softmax", x))
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(2048, 3072)))  # on one side of all
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(320, 448)))  # far from all
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(3008, 4000)))  # no multiple of 64, as theirs are
        self.told("softmax", (2560, 5120), c0ffee04=0.97)
        self.assertIn("PyTorch computes this", self.explain("softmax", x))
        self.told("softmax", (2560, 5120), c0ffee04=0.88)
        self.assertIn("at the 3 nearest shapes around it, where it took at most 88%", self.explain("softmax", x))
        self.told("softmax", (2560, 2560), c0ffee04=1.2)
        self.assertIn("PyTorch computes this", self.explain("softmax", x))
        for rows, cols in ((10008, 100), (20008, 100)):
            self.told("softmax", (rows, cols), c0ffee04=0.8)
        self.assertIn("at the 2 nearest shapes", self.explain("softmax", torch.randn(15008, 100)))
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(15004, 100)))

    def test_spread(self):
        """What differs much between the nearest shapes says little of what lies between them; one that is farther says nothing."""
        for i, (low, high, far, kernel) in enumerate((
            (0.65, 0.94, 0.94, False), (0.92, 0.935, 0.94, True), (0.93, 0.96, 0.93, False), (0.6, 0.75, 0.9, True), (0.5, 0.8, 0.8, False), (0.8, 0.8, 1.5, True),
        )):
            cols = 4 << 2 * i
            for rows, part in ((640, low), (1280, high), (2048, far)):
                self.told("rmsnorm", (rows, cols), c0ffee02=part)
            with self.subTest(low=low, high=high, far=far):
                self.assertEqual("evotune computes this" in self.explain("rmsnorm", torch.empty(896, cols), torch.empty(cols)), kernel)

    def test_between_candidates(self):
        """Of several candidates that is called which was clearly faster at all of the nearest shapes, though neither of them was the best at one."""
        x = torch.randn(1500)
        fast = lambda n: evotune_torch.explain("turns", torch.randn(n)).startswith("evotune::turns: evotune computes this: kernel fa57 (tuned for N=40): not measured here")
        slow = lambda n: evotune_torch.explain("turns", torch.randn(n)).startswith("evotune::turns: evotune computes this: kernel 510e")
        for shape, parts in ((1024, {"510e": 0.5, "fa57": 0.7}), (2048, {"510e": 0.99, "fa57": 0.8})):
            self.told("turns", (shape,), **{c: p for c, p in parts.items()})
        self.assertTrue(fast(1536))
        torch.testing.assert_close(evotune_torch.turns(x), torch.sin(x / 2))
        self.told("turns", (2048,), **{"510e": 0.55, "fa57": 0.8})
        self.assertTrue(slow(1536))
        self.told("turns", (1280,), **{"fa57": 0.8})  # where 510e is unknown
        self.assertTrue(fast(1216))
        self.assertTrue(slow(1792) is False and fast(1792))

    def test_best_of_all(self):
        """Measuring tries all kernels; the best is called there, though the library would choose another."""
        x = torch.randn(3999)
        self.assertIn("kernel 510e (tuned for the nearest shape, N=4000) would be called", self.explain("turns", x))
        self.assertEqual(operators.ops._candidates("turns", [3999]), ["510e", "fa57"])
        with slow("turns"):
            (row,) = evotune_torch.measure("turns", [{"N": 3999}], rounds=8)
        self.assertEqual((row["candidate"], row["decision"], [(c["candidate"], c["decision"]) for c in row["others"]]), ("fa57", "evotune", [("510e", "another")]))
        self.assertGreater(row["others"][0]["ours"], 10 * row["ours"])
        said = self.explain("turns", x)
        self.assertIn(f"evotune computes this: kernel fa57 (tuned for N=40): {row['ours'] / 1e3:.2f} us against {row['theirs'] / 1e3:.2f} us of PyTorch, measured here", said)
        torch.testing.assert_close(evotune_torch.turns(x), torch.sin(x / 2))
        took = lambda: measuring.clocked(lambda: evotune_torch.turns(x))
        self.assertLess(min(took() for _ in range(20)) * 1e3, row["others"][0]["ours"] / 4)
        with evotune_torch.use("kernels"):
            self.assertIn("kernel fa57", self.explain("turns", x))
        code = "import torch, evotune_torch; print(evotune_torch.explain('turns', torch.randn(3999)))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip(), said)
        # A wisdom file has the last word on the kernel.
        wisdom = pathlib.Path(tempfile.mkdtemp(), "wisdom.txt")
        wisdom.write_text("evotune-wisdom 1\nturns\tN=3999\t510e\t*\t1\t-\t.\n")
        said = subprocess.run([sys.executable, "-c", code + "; print(evotune_torch._operators.ops._candidates('turns', [3999]))"], capture_output=True, text=True, check=True, env={**os.environ, "EVOTUNE_WISDOM": str(wisdom)}).stdout
        self.assertRegex(said, r"kernel 510e \(named by a wisdom file\) would be called\n\['510e'\]")

    def test_between_heads(self):
        """Small sizes of outer axes need not be multiples of anything, only between such that were measured."""
        calls = lambda b, h, s, d: "evotune computes this" in self.explain("attention", *[torch.empty(b, h, s, d)] * 3, False)
        for b, h in ((2, 8), (2, 16), (4, 8), (4, 16)):
            self.told("attention", (b, h, 512, 64, 0), c0ffee00=0.8)
        self.told("attention", (2, 8, 1024, 64, 0), c0ffee00=0.8)
        self.assertEqual([calls(2, 9, 512, 64), calls(3, 8, 512, 64), calls(3, 15, 512, 64), calls(2, 8, 704, 64)], [True] * 4)
        self.assertEqual([calls(1, 9, 512, 64), calls(2, 17, 512, 64), calls(2, 8, 712, 64), calls(2, 9, 512, 63)], [False] * 4)
        self.told("attention", (2, 12, 512, 64, 0), c0ffee00=1.1)
        self.assertEqual([calls(2, 9, 512, 64), calls(2, 15, 512, 64), calls(2, 8, 704, 64)], [False, False, True])

    def test_lattice(self):
        """What is measured without being asked for lies between the tuned shapes, and what bench.py holds out is none of it."""
        tuned = [(2, 8, 512, 64, 0), (2, 8, 512, 64, 1), (1, 8, 512, 64, 0), (4, 16, 512, 64, 0), (4, 16, 2048, 64, 0), (2, 8, 2048, 64, 0), (2, 8, 512, 128, 0)]
        op = copy.copy(operators.find("attention"))
        op.spec = {**op.spec, "tuned": tuned}
        found = measuring.lattice(op)
        for want in ((3, 8, 512, 64, 0), (2, 12, 512, 64, 1), (2, 8, 1024, 64, 0), (1, 8, 1024, 64, 0), (2, 8, 512, 96, 0), (4, 12, 2048, 64, 0)):
            self.assertIn(want, found)
        self.assertEqual(len(set(found) - set(tuned)), len(found))
        self.assertLessEqual(len(found), measuring.LATTICE)
        for i, sizes in enumerate(((1, 2, 3, 4), (8, 12, 16), (512, 1024, 2048), (64, 96, 128), (0, 1))):
            self.assertLessEqual({f[i] for f in found}, set(sizes))
        held_out = list(bench.between(op))
        self.assertGreater(len(held_out), 40)
        self.assertFalse({*held_out} & {*found, *tuned})
        # There are enough of them with sizes of heads that were tuned, too, where only lengths differ.
        op.spec = {**op.spec, "tuned": [(2, 8, s, d, c) for s in (512, 2048, 8192) for d in (64, 128) for c in (0, 1)]}
        self.assertGreaterEqual(sum(h[:2] == (2, 8) and h[3] in (64, 128) for h in bench.between(op)), 40)
        rows = evotune_torch.measure("turns", rounds=3)
        self.assertEqual([r["dims"] for r in rows], ["N=40", "N=4000", "N=384"])
        self.assertEqual(len(evotune_torch.measure("turns", rounds=3, seconds=0)), 2)

    def test_held_out(self):
        """bench.py tells what was measured elsewhere from what a call measures."""
        out = io.StringIO()
        turns = operators.operators()["turns"]
        with unittest.mock.patch.object(operators, "operators", lambda: {"turns": turns}), contextlib.redirect_stdout(out), slow("turns", 0.002):
            rows = bench.on_grid(2, 7, held_out=True)
        self.assertEqual([r.get("on demand", False) for r in rows], [False, False, True, True])
        self.assertRegex(out.getvalue(), r"measured at 3 other shapes, the tuned ones and some between them, in \d+ s:\n(?s:.*)\n2 shapes: (?s:.*)measured by the first call(?s:.*)kernels called at 2\n$")
        self.assertTrue(all("kernel fa57" in r["explained"] and "measured here" in r["explained"] for r in rows[2:]), rows)

    def counted(self):
        """Counts measurements."""
        return unittest.mock.patch.object(measuring, "beside", wraps=measuring.beside)

    def test_on_demand(self):
        """The first call of a shape measures it, once, and keeps what it found."""
        x = torch.randn(777)
        with slow("turns"), self.counted() as measured:
            evotune_torch.turns(x)
            measured.assert_not_called()
            self.assertIn("evotune_torch.measure does that, or use", self.explain("turns", x))
            with evotune_torch.use("measure"):
                self.assertIn("a call does that", self.explain("turns", x))
                for _ in range(3):
                    torch.testing.assert_close(evotune_torch.turns(x), torch.sin(x / 2))
                evotune_torch.turns(torch.randn(2 * 777)[::2])  # not what a kernel takes
                evotune_torch.turns(torch.randn(779, dtype=torch.float64))
            self.assertEqual(measured.call_count, 1)
            self.assertIn("evotune computes this: kernel fa57", self.explain("turns", x))
            self.assertIn("us of PyTorch, measured here", self.explain("turns", x))
        self.assertIn(("turns", "N=777", operators.ops._device(), "fa57", torch.__version__), measuring._lines())
        q = torch.randn(1, 2, 24, 64)
        with evotune_torch.use("measure"), self.counted() as measured:
            a = q.clone().requires_grad_()
            evotune_torch.attention(a, q, q, True).sum().backward()
            self.assertEqual(measured.call_count, 1)
        b = q.clone().requires_grad_()
        with evotune_torch.use("pytorch"):
            evotune_torch.attention(b, q, q, True).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
        self.assertIn("of PyTorch", self.explain("attention", q, q, q, True))

    def test_on_demand_fails(self):
        """Whatever happens, the call is answered, with one warning."""
        x = torch.randn(781)
        with evotune_torch.use("measure"), unittest.mock.patch.object(measuring, "beside", side_effect=RuntimeError("CUDA out of memory\nand more")) as measured:
            with self.assertWarnsRegex(UserWarning, "^evotune::turns: measuring N=781 failed: CUDA out of memory$"):
                torch.testing.assert_close(evotune_torch.turns(x), torch.sin(x / 2))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                evotune_torch.turns(x)
            self.assertEqual(measured.call_count, 1)
        self.assertIn("N=781 was not measured", self.explain("turns", x))
        x = torch.randn(787)
        with evotune_torch.use("measure"), unittest.mock.patch.dict(os.environ, EVOTUNE_TORCH_MEASURED="/nowhere/measured.txt"), self.assertWarnsRegex(UserWarning, "measuring N=787 failed: .* could not be written"):
            evotune_torch.turns(x)
        self.assertIn("of PyTorch", self.explain("turns", x))  # known as long as the process

    def test_on_demand_not_now(self):
        """Neither in a backward pass nor while another thread measures; later then."""
        x = torch.randn(789)
        with evotune_torch.use("measure"), self.counted() as measured:
            with unittest.mock.patch.object(torch._C, "_current_graph_task_id", lambda: 3, create=True):
                evotune_torch.turns(x)
            with measuring._busy:
                evotune_torch.turns(x)
            measured.assert_not_called()
            begin, results = threading.Barrier(4), []

            def call():
                begin.wait()
                results.append(evotune_torch.turns(x))

            threads = [threading.Thread(target=call) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(measured.call_count, 1)
            for y in results:
                torch.testing.assert_close(y, torch.sin(x / 2))

    def test_environment(self):
        code = "import torch, evotune_torch; evotune_torch.turns(torch.randn(791)); print(evotune_torch.explain('turns', torch.randn(791)))"
        run = lambda way: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "EVOTUNE_TORCH_USE": way})
        self.assertIn("not measured", run("").stdout)
        self.assertIn("us of PyTorch", run("measure").stdout)
        self.assertIn("us of PyTorch", run("measured").stdout)
        self.assertIn("use('often'): choose one of measured, kernels, pytorch, measure", run("often").stderr)

    def test_by_arguments(self):
        q = torch.randn(1, 2, 16, 64)
        (row,) = evotune_torch.measure(evotune_torch.attention, [(q, q, q, True)], rounds=3)
        self.assertEqual(row["dims"], "B=1,H=2,S=16,D=64,CAUSAL=1")
        self.assertIn(" of PyTorch", self.explain("attention", q, q, q, True))
        self.assertIn("not measured", self.explain("attention", q, q, q, False))

    def test_bad_file(self):
        path = measuring.path()
        evotune_torch.measure("softmax", [{"ROWS": 8, "COLS": 16}], rounds=2)
        text = path.read_text().splitlines()
        path.write_text("\n".join([*text, "softmax\tROWS=1", text[-1].replace(torch.__version__, "0.1")]) + "\n")
        with self.assertWarnsRegex(UserWarning, f"line {len(text) + 1} was skipped"):
            self.assertEqual(len(measuring._lines()), len(text) - 1)
        path.write_text("another file\n")
        with self.assertWarnsRegex(UserWarning, "line 1: expected 'evotune-torch-measured 2': nothing of it was read: measure again"):
            self.assertEqual(measuring._lines(), {})
        self.assertEqual(len(evotune_torch.measure("softmax", [{"ROWS": 8, "COLS": 16}], rounds=2)), 1)
        self.assertEqual(len(measuring._lines()), 1)
        with self.assertRaisesRegex(ValueError, "has the dimensions ROWS, COLS, not ROWS"):
            evotune_torch.measure("softmax", [{"ROWS": 8}])
        path.unlink()

    def test_command(self):
        def command(*args):
            return subprocess.run([sys.executable, "-m", "evotune_torch", *args], capture_output=True, text=True)

        done = command("measure", "softmax", "ROWS=16,COLS=32", "--rounds", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"softmax +ROWS=16,COLS=32 +c0ffee04 .* (evotune|PyTorch)\n$")
        done = command("explain", "softmax", "ROWS=16,COLS=32")
        self.assertIn("us of PyTorch", done.stdout)
        self.assertIn("evotune_torch has no operator softmin", command("measure", "softmin").stderr)


if __name__ == "__main__":
    unittest.main()
