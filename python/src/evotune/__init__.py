"""evotune tunes kernels in C and CUDA, and trusts no result that it has not checked.

    k = evotune.Kernel("silumul", source="silumul.cu", entry="silumul", reference=ref, inputs=..., outputs=..., genes=..., shapes=...)
    best = k.tune(time="60s")
    op = best.op()                # an operator of PyTorch

The program ``tune`` does the work: a wheel has it, ``python -m evotune`` runs it. docs/python.md is the guide.
"""

from __future__ import annotations

from ._campaign import Best, Campaign, Candidate, Judgment, Op
from ._kernel import Kernel, Scalar, Tensor, scalar, tensor
from ._kernel_tuner import from_kernel_tuner
from ._server import Server, connect
from ._tune import Error

__all__ = ["Best", "Campaign", "Candidate", "Error", "Judgment", "Kernel", "Op", "Scalar", "Server", "Tensor", "connect", "explain", "from_kernel_tuner", "scalar", "tensor"]


def explain(op: Op, *args: object, **kwargs: object) -> str:
    """Who would compute ``op(*args)``, a kernel or PyTorch, and why."""
    return op.explain(*args, **kwargs)

try:
    from ._version import __version__
except ImportError:  # a source tree
    __version__ = "0.0.0.dev0"
