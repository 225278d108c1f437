"""References: the file that is written from functions."""

from __future__ import annotations

import math
import unittest

from common import Case, have

HALF = 0.5
TABLE = (1, 2.5, "three")
TRACK: dict = {}


def logistic(x):
    return 1 / (1 + math.e ** -x)


def silu(x):
    return x * logistic(x)


def plain(x):
    D = x.shape[-1] // 2
    return silu(x[:, :D]) * x[:, D:] * (HALF + HALF) * TABLE[0]


def with_sizes(x, T, D):
    return silu(x[:, :D]) * x[:, D:]


def with_other(x, N):
    return x


def with_rest(*x):
    return x


def with_state(x):
    return TRACK.get(x)


def with_nothing(x):
    return undefined_name(x)  # noqa: F821


def decorate(f):
    return f


@decorate
def decorated(x):
    return x


def around():
    kept = 3

    def inside(x):
        return x * kept
    return inside


@unittest.skipUnless(have("numpy") or have("torch"), "references in Python need NumPy or PyTorch")
class References(Case):
    def text(self, **given: object) -> str:
        return (self.kernel(**given).folder / "reference.py").read_text()

    def test_a_function_comes_with_what_it_needs(self) -> None:
        text = self.text(reference=plain)
        names = {}
        exec(text, names)
        self.assertEqual((names["HALF"], names["TABLE"]), (HALF, TABLE))
        self.assertAlmostEqual(names["silu"](1.0), silu(1.0))
        self.assertIn("import math\n", text)
        self.assertNotIn("TRACK", text)

    def test_sizes_are_passed_by_name(self) -> None:
        self.assertIn("def with_sizes(x, T, D)", self.text(reference=with_sizes))

    def test_a_function_of_a_file(self) -> None:
        self.write("refs.py", "import numpy as np\n\ndef f(x):\n    return np.exp(x)\n")
        text = self.text(reference="refs.py:f")
        self.assertIn("np.exp", text)

    def test_what_cannot_be_written(self) -> None:
        for name, reference, words in (
            ("a lambda", lambda x: x, ["test_reference.py:", "lambda"]),
            ("a decorator", decorated, ["decorated has a decorator"]),
            ("a closure", around(), ["inside uses kept of the function around it"]),
            ("a mutable thing", with_state, ["with_state uses TRACK, a dict"]),
            ("a name that is not defined", with_nothing, ["with_nothing uses undefined_name, which is not defined"]),
            ("a parameter that is nothing", with_other, ["with_other has the parameter N", "there are x, T, D"]),
            ("any number of parameters", with_rest, ["with_rest takes *x"]),
        ):
            with self.subTest(name):
                with self.refused(*words):
                    self.kernel(reference=reference)


if __name__ == "__main__":
    unittest.main()
