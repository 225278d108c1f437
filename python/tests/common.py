"""What the tests share. They run with the package that is installed, and with no library beside Python's own where that is enough."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import tempfile
import unittest
from typing import Any, Dict, Iterator

# The stores and kernels of tests are their own.
HOME = tempfile.mkdtemp(prefix="evotune-test-")
os.environ["XDG_CACHE_HOME"] = HOME

import evotune  # noqa: E402  the cache is settled before

SOURCE = """
#include <math.h>
#include <stddef.h>

/* o = silu(g) * u, where g and u are the halves of each row of x. */
void silumul(const float *x, float *o, int T, int D)
{
	for (int t = 0; t < T; t++) {
		const float *g = x + (size_t)t * 2 * D, *u = g + D;
		float *row = o + (size_t)t * D;
		int d = 0;
		for (; d + BLOCK <= D; d += BLOCK)
			for (int i = 0; i < BLOCK; i++)
				row[d + i] = g[d + i] / (1.0f + expf(-g[d + i])) * u[d + i];
		for (; d < D; d++)
			row[d] = g[d] / (1.0f + expf(-g[d])) * u[d];
	}
}
"""

REFERENCE = """
#include <math.h>
#include <stdint.h>

void reference(int64_t T, int64_t D, const double *x, double *o)
{
	for (int64_t t = 0; t < T; t++)
		for (int64_t d = 0; d < D; d++)
			o[t*D + d] = x[2*t*D + d] / (1 + exp(-x[2*t*D + d])) * x[2*t*D + D + d];
}
"""

FAST = ["-std=gnu11", "-O3", "-march=native", "-ffast-math"]


def have(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class Case(unittest.TestCase):
    """A test with a folder of its own, in which it runs."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=HOME)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.write("reference.c", REFERENCE)

    def write(self, name: str, text: str) -> str:
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def arguments(self, **other: Any) -> Dict[str, Any]:
        """A kernel's arguments, of which others may be given."""
        given: Dict[str, Any] = dict(
            name="silumul", source=SOURCE, entry="silumul", reference="reference.c", inputs=dict(x=evotune.tensor("T", "2*D")), outputs=dict(o=evotune.tensor("T", "D")),
            genes=dict(BLOCK=[1, 8, 64]), flags=FAST, shapes=dict(small=dict(T=64, D=512), odd=dict(T=37, D=203, verify=True)), quiet=True)
        given.update(other)
        return given

    def kernel(self, **other: Any) -> evotune.Kernel:
        return evotune.Kernel(**self.arguments(**other))

    @contextlib.contextmanager
    def refused(self, *words: str) -> Iterator[None]:
        """What is done inside is refused in one line with the words, which names a Python file and line."""
        with self.assertRaises(evotune.Error) as caught:
            yield
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertRegex(text, r"^[^ ]+\.py:\d+: ")
        for word in words:
            self.assertIn(word, text)


def printed() -> "contextlib.redirect_stdout[io.StringIO]":
    return contextlib.redirect_stdout(io.StringIO())
