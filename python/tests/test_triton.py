"""Functions of Triton as sources, with a Triton of the tests' own: nothing is compiled."""

from __future__ import annotations

import sys
import types
from typing import Any

from common import Case, evotune


class JITFunction:
    def __init__(self, fn: Any) -> None:
        self.fn = fn


class Autotuner:
    def __init__(self, fn: Any) -> None:
        self.fn = fn


class constexpr:
    def __init__(self, value: Any) -> None:
        self.value = value


for made in (JITFunction, Autotuner, constexpr):
    made.__module__ = "triton.runtime"
triton: Any = types.ModuleType("triton")
tl: Any = types.ModuleType("triton.language")
triton.jit, triton.autotune, triton.language, tl.constexpr = JITFunction, lambda configs, key: Autotuner, tl, constexpr
triton.__file__ = tl.__file__ = __import__("os").__file__  # as if it were installed
sys.modules.setdefault("triton", triton)
sys.modules.setdefault("triton.language", tl)

LOG2E = constexpr(1.44269504)


@triton.jit
def scaled(x, factor):
    return x * factor * LOG2E


@triton.autotune([], key=["N"])
@triton.jit
def softmax_kernel(y_ptr, x_ptr, stride, N,
                   BLOCK: tl.constexpr):
    """The softmax of a row."""
    at = tl.arange(0, BLOCK)
    row = scaled(tl.load(x_ptr + tl.program_id(0) * stride + at, mask=at < N), 1.0)
    tl.store(y_ptr + at, row)


@triton.jit
def other_kernel(y_ptr, x_ptr, rows, BLOCK: tl.constexpr):
    pass


FILE = '''import triton
import triton.language as tl

@triton.jit
def copy_kernel(y_ptr, x_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < N), mask=at < N)
'''


class Triton(Case):
    def kernel(self, **other: Any) -> evotune.Kernel:
        given = dict(name="softmax", source=softmax_kernel, entry=None, reference="reference.c", inputs=dict(x=evotune.tensor("M", "N", dtype="f16")),
                     outputs=dict(y=evotune.tensor("M", "N", dtype="f16")), genes=dict(BLOCK=[128, 256, 512], num_warps=[4, 8]), flags=[], grid=["M"],
                     constraints=["BLOCK >= N"], shapes=dict(small=dict(M=64, N=203)), args=dict(stride="N"))
        given.update(other)
        return super().kernel(**given)

    def test_a_function_is_written_with_what_it_uses(self) -> None:
        k = self.kernel()
        to = k.save("softmax")
        self.assertEqual(sorted(p.name for p in to.iterdir()), ["kernel.py", "kernel.toml", "reference.c"])
        text = (to / "kernel.py").read_text()
        for part in ("import triton\n", "import triton.language as tl\n", "LOG2E = triton.language.constexpr(1.44269504)\n", "@triton.jit\ndef scaled(x, factor):\n",
                     "@triton.jit\ndef softmax_kernel(y_ptr, x_ptr, stride, N,\n"):
            self.assertIn(part, text)
        self.assertNotIn("autotune", text)
        toml = (to / "kernel.toml").read_text()
        for line in ('language = "triton"', 'template = "kernel.py"', 'entry = "softmax_kernel"', 'stride = "N"', 'grid = ["M"]'):
            self.assertIn(line + "\n", toml)
        self.assertNotIn("block =", toml)
        self.assertEqual(k.lint(static=True), [])

    def test_a_file(self) -> None:
        k = self.kernel(source=self.write("copy.py", FILE), args=None)
        self.assertEqual((k.folder / "kernel.py").read_text(), FILE)
        self.assertIn('entry = "copy_kernel"\n', (k.folder / "kernel.toml").read_text())
        self.assertEqual((self.kernel(source=FILE, args=None, language="triton").folder / "kernel.py").read_text(), FILE)

    def test_what_is_wrong_is_told_at_its_line(self) -> None:
        line = other_kernel.fn.__code__.co_firstlineno + 1
        with self.refused(f"test_triton.py:{line}: nothing has the name of rows, a parameter of other_kernel"):
            self.kernel(source=other_kernel, args=None)
        with self.refused("copy.py:5: nothing has the name of x_ptr"):
            self.kernel(source=self.write("copy.py", FILE), args=None, inputs=dict(a=evotune.tensor("M", "N", dtype="f16")))
        with self.refused("needs its grid"):
            self.kernel(grid=None)
        with self.refused("remove block and shared"):
            self.kernel(block=["128"])
        with self.refused("args is for functions of Triton"):
            super().kernel(args=dict(stride="N"))
        with self.refused("nothing reads the parameter num_ctas"):
            self.kernel(genes=dict(BLOCK=[256], num_ctas=[1, 2]))
        with self.refused('there are "C", "CUDA" and "Triton"'):
            self.kernel(source=FILE, args=None, lang="mojo")
