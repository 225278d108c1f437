"""What test_ops.py cannot know: what the kernels of TestTorchOperators compute, and who is called."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

import evotune_torch

measuring, operators = evotune_torch._measure, evotune_torch._operators

os.environ["EVOTUNE_TORCH_MEASURED"] = str(pathlib.Path(tempfile.mkdtemp(), "measured.txt"))


def silu_mul(x, scale=0.5):
    d = x.shape[-1] // 2
    return F.silu(x[..., :d]) * x[..., d:] * scale


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
            tell = lambda candidate, faster: operators.ops._measured("softmax", operators.ops._device(), [11, 24], candidate, 1e3 if faster else 3e3, 2e3, 1.0 if faster else 0.0, faster)
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

    def test_between(self):
        """A shape between measured ones is the kernel's where it was clearly faster at all that are near."""
        tell = lambda rows, cols, share: operators.ops._measured("softmax", operators.ops._device(), [rows, cols], "c0ffee04", share * 1e3, 1e3, 1.0, share <= 0.98)
        x = torch.randn(3008, 4032)
        for rows, cols in ((2560, 2560), (2560, 5120), (5120, 2560)):
            tell(rows, cols, 0.8)
        self.assertIn("evotune computes this: kernel c0ffee04", self.explain("softmax", x))
        self.assertIn("not measured here, but at the 3 nearest shapes, where it took at most 80% of PyTorch's time", self.explain("softmax", x))
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(2048, 3072)))  # on one side of all
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(320, 448)))  # far from all
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(3008, 4000)))  # no multiple of 64, as theirs are
        tell(5120, 5120, 0.97)
        self.assertIn("PyTorch computes this", self.explain("softmax", x))
        tell(5120, 5120, 0.9)
        self.assertIn("at the 4 nearest shapes, where it took at most 90%", self.explain("softmax", x))
        tell(2560, 2560, 1.2)
        self.assertIn("PyTorch computes this", self.explain("softmax", x))
        for rows, cols in ((10008, 100), (20008, 100)):
            tell(rows, cols, 0.8)
        self.assertIn("at the 2 nearest shapes", self.explain("softmax", torch.randn(15008, 100)))
        self.assertIn("PyTorch computes this", self.explain("softmax", torch.randn(15004, 100)))

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
        with self.assertWarnsRegex(UserWarning, "line 1: expected 'evotune-torch-measured 1'"):
            self.assertEqual(measuring._lines(), {})
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
