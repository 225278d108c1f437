"""What stands in for Triton in tests. It checks what the real one checks of its arguments, and
"compiles" every function to one kernel that doubles its first pointer's elements."""

import inspect
import os
import types

__version__ = "3.6.0+tests"

if os.environ.get("TRITON_INTERPRET") or os.environ.get("CUDA_VISIBLE_DEVICES") != "":
    raise RuntimeError("the environment could change what is compiled")


class JITFunction:
    def __init__(self, fn):
        self.fn = fn
        self.raw_src, self.starting_line_number = inspect.getsourcelines(fn)
        self.src = "".join(self.raw_src)
        self.src = self.src[self.src.index("def "):]
        self.arg_names = list(inspect.signature(fn).parameters)
        self.__name__ = fn.__name__


class Autotuner:
    def __init__(self, fn):
        self.fn = fn


def jit(fn):
    return JITFunction(fn)


def autotune(configs, key):
    return Autotuner


def cdiv(a, b):
    return -(-a // b)


class _Tool:
    path = os.path.join(os.path.dirname(__file__), "backends", "nvidia", "bin", "ptxas")


knobs = types.SimpleNamespace(nvidia=types.SimpleNamespace(ptxas=_Tool))

from .compiler import compile  # noqa: E402, F401
