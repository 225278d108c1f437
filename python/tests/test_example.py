"""The package's first example, for a CPU: from nothing to an operator of PyTorch."""

from __future__ import annotations

import time
import unittest

from common import Case, evotune, have

if have("torch"):
    import torch

LIMIT = 90  # seconds


def ref(x):  # float64 in, float64 out
    g, u = x.chunk(2, -1)
    return torch.nn.functional.silu(g) * u


def backward(grad_o, x):
    g, u = x.chunk(2, -1)
    s = torch.sigmoid(g)
    return torch.cat([grad_o * u * s * (1 + g * (1 - s)), grad_o * g * s], -1)


def broken(x):
    g, u = x.chunk(2, -1)
    return g @ u


def wrong_shape(x):
    return x


def wrong_type(x):
    return "x"


@unittest.skipUnless(have("torch"), "no PyTorch")
class Example(Case):
    def test_from_nothing_to_an_operator(self) -> None:
        begin = time.monotonic()
        k = self.kernel(reference=ref, backward=backward, genes=dict(BLOCK=[1, 4, 8, 16, 64]))
        best = k.tune(time="15s")
        if have("pandas"):
            self.assertIn(best.genome["BLOCK"], list(best.candidates["BLOCK"]))
        # Several workers may share the machine's cores, and then the finals prove nothing.
        op = best.op(evidence="finals" if best.significant else "sanitized")
        x = torch.randn(37, 2 * 203)
        y = op(x)
        taken = time.monotonic() - begin
        self.assertLess(float((y.double() - ref(x.double())).abs().max()), 1e-4)
        self.assertLess(taken, LIMIT)
        with self.subTest("derivatives"):
            x.requires_grad_()
            op(x).sum().backward()
            wide = x.detach().double().requires_grad_()
            ref(wide).sum().backward()
            self.assertLess(float((x.grad - wide.grad).abs().max()), 1e-4)
        for name, bad, words in (
            ("another shape", torch.randn(3, 5), ["silumul", "x"]),
            ("another dtype", torch.randn(3, 4).double(), ["silumul", "Double", "Float"]),
            ("no tensor", "x", ["silumul", "Tensor"]),
        ):
            with self.subTest(name):
                with self.refused("test_example.py:", *words):
                    op(bad)

    def test_a_reference_that_is_wrong(self) -> None:
        for name, function, words in (
            ("it raises", broken, ["test_example.py:29: "]),
            ("it returns another shape", wrong_shape, ["test_example.py:32"]),
            ("it returns a text", wrong_type, ["test_example.py:36"]),
        ):
            with self.subTest(name):
                k = self.kernel(reference=function)
                with self.refused("test_example.py:", *words):
                    k.tune(evaluations=1)

    def test_data_of_a_function(self) -> None:
        source = "void shift(const float *x, const float *by, float *o, int T)\n{\n\tfor (int t = 0; t < T; t++)\n\t\to[t] = x[t] + by[t] * (STEP > 0);\n}\n"
        k = evotune.Kernel(
            "shift", source, reference=shifted, inputs=dict(x=evotune.tensor("T"), by=evotune.tensor("T", data=halves)), outputs=dict(o=evotune.tensor("T")),
            genes=dict(STEP=[1, 2]), shapes=dict(a=dict(T=5000)), quiet=True)
        self.assertEqual(k.tune(evaluations=1).verdict, "correct")


def shifted(x, by):
    return x + by


def halves(T, seed):
    return torch.rand(T, generator=torch.Generator().manual_seed(seed)) - 0.5


if __name__ == "__main__":
    unittest.main()
