"""A kernel: a source, what is to be tuned, and a reference."""

from __future__ import annotations

import filecmp
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from . import _tune
from ._reference import Reference, Source, jitted
from ._tune import Error, read

if TYPE_CHECKING:
    from ._campaign import Best, Campaign, Judgment
    from typing_extensions import Unpack

    from ._options import ResumeOptions, RunOptions
    from ._server import Server

Gene = Union[int, float, bool, str]
Data = Union[str, Callable[..., Any], None]

_DTYPES = {
    "float64": "f64", "double": "f64", "float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint32": "u32", "uint16": "u16", "uint8": "u8",
}
_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"
_KNOWN = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "i16", "i8", "u32", "u16", "u8")


def dtype_of(dtype: Any) -> str:
    """evotune's name of a type that is given by its name, or as one of NumPy or PyTorch."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
    name = name.split(".")[-1]
    name = _DTYPES.get(name, name)
    if name not in _KNOWN:
        raise Error(f"the dtype {dtype!r} is not known: there are {', '.join(_KNOWN)}")
    return name


@dataclass(frozen=True)
class Tensor:
    """A buffer of a kernel; see :func:`tensor`."""

    shape: Sequence[str]
    dtype: str
    data: Data
    domain: Optional[str]
    tolerance: Optional[float]


def tensor(*shape: Union[str, int], dtype: Any = "f32", data: Data = None, domain: Optional[str] = None, tolerance: Optional[float] = None) -> Tensor:
    """An input or an output of a kernel, in row-major order.

    ``shape`` has an expression over the dimensions for each axis, such as ``"2*D"``. ``data`` says how an input is filled:
    ``"normal(0,1)"`` (the default for floating-point types), ``"uniform(-1,1)"``, ``"integers(0,7)"``, ``"constant(1)"``, or a
    function that gets ``seed``, dimensions and scalars by the names of its parameters and returns the whole array. ``domain``
    says where else the kernel must be correct, as ``"[-1e4, 1e4]"``. ``tolerance`` is the largest error of this output,
    relative to its root mean square.
    """
    if not shape:
        raise Error("a tensor has at least one axis: give one as tensor(\"N\")")
    for axis in shape:
        if isinstance(axis, bool) or not isinstance(axis, (str, int)):
            raise Error(f"an axis of a tensor is {axis!r}: give a number, or an expression over the dimensions as a text")
    return Tensor([str(axis) for axis in shape], dtype_of(dtype), data, domain, tolerance)


@dataclass(frozen=True)
class Scalar:
    """A number that a kernel gets; see :func:`scalar`."""

    value: str
    dtype: str
    also: Sequence[float]


def scalar(value: Union[str, int, float], dtype: Any = "f32", also: Sequence[float] = ()) -> Scalar:
    """A number that the kernel gets by value: a number or an expression over the dimensions. ``also`` are further values to check."""
    others: List[Any] = list(also) if isinstance(also, (list, tuple)) else [also]
    for x in [value, *others]:
        x = x.item() if hasattr(x, "item") else x  # a number of NumPy
        if not isinstance(x, (str, int, float)) or isinstance(x, float) and not math.isfinite(x):
            raise Error(f"a scalar is {x!r}: give a finite number, or an expression over the dimensions as a text")
    if any(isinstance(x, str) for x in others):
        raise Error(f"also is {also!r}: give the list of further numbers")
    return Scalar(str(value), dtype_of(dtype), [float(x) for x in others])


def _mapping(value: Any, what: str, kind: type, example: str) -> Dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Error(f"{what} is a {type(value).__name__}: write {what}=dict({example})")
    for name, item in value.items():
        if not isinstance(item, kind):
            raise Error(f"{what}: {name} is {item!r}: write {what}=dict({example})")
    return dict(value)


def _texts(value: Any, what: str) -> List[str]:
    if value is None:
        return []
    if isinstance(value, (str, int)):
        value = [value]
    if not all(isinstance(x, (str, int)) for x in value):
        raise Error(f"{what} is {value!r}: give expressions as texts")
    return [str(x) for x in value]


class Kernel:
    """A kernel in C, CUDA or Triton with what is to be tuned, and a reference that says what is correct.

    ``source`` is the text of the source, or the path of a file in C (``.c``), CUDA (``.cu``) or Python (``.py``); ``entry`` the function
    in it; ``aliases=dict(len="N")`` names an argument N here that is ``len`` in the source. A function with ``@triton.jit`` is a source itself: docs/triton.md. ``args`` then says what its parameters are whose names do not.
    ``lang`` (or ``language``) is "C", "CUDA" or "Triton", where the source does not show it.
    Its arguments are matched by name with ``inputs``, ``outputs`` (a name in both is read and written), the dimensions in
    ``shapes``, and ``scalars``. ``genes`` have the values to try of each parameter: a macro, a constant or a template parameter
    of the source, or a name in the actions of a source that is a Go template. ``constraints`` are expressions that must hold,
    or pairs of one and why.

    ``reference`` is a function that gets inputs (float64), scalars and dimensions by the names of its parameters and returns
    the outputs, or ``"file.py:function"``, or ``"file.c:function"``. ``shapes`` give a size to every dimension; ``verify=True``
    marks one that must be right and is not tuned for, ``sanitize=True`` one for the sanitizers. ``grid``, ``block`` and
    ``shared`` are the launch in CUDA. ``backward`` gives the operator its derivatives, and ``forward`` says what PyTorch itself
    computes the kernel with, to which calls are handed over where it was not measured to be slower: docs/pytorch.md.

    What was not given and has a default is printed once. An :class:`Error` is one line with the place in the program.
    """

    def __init__(
        self, name: str, source: Any, *, entry: Optional[str] = None, reference: Any = None,
        inputs: Optional[Mapping[str, Tensor]] = None, outputs: Optional[Mapping[str, Tensor]] = None, scalars: Optional[Mapping[str, Scalar]] = None,
        genes: Optional[Mapping[str, Sequence[Gene]]] = None, constraints: Sequence[Any] = (), aliases: Optional[Mapping[str, str]] = None, baseline: Optional[Mapping[str, Gene]] = None,
        shapes: Optional[Mapping[str, Mapping[str, Any]]] = None, grid: Any = None, block: Any = None, shared: Any = None,
        args: Optional[Mapping[str, Gene]] = None, lang: Optional[str] = None, language: Optional[str] = None, flags: Sequence[str] = (), target: Optional[str] = None, tolerance: Optional[Mapping[str, float]] = None,
        operations: Optional[str] = None, pipe: Optional[str] = None, bytes: Optional[str] = None, forward: Optional[Callable[..., Any]] = None,
        backward: Optional[Callable[..., Any]] = None, description: Optional[str] = None, quiet: bool = False,
        _python: bool = False,
    ):
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):  # before it is part of a path
            raise Error(f'"{name}" cannot name a kernel: use a-z, 0-9, - and _, beginning with a letter or digit')
        self.name = name
        lang = lang or language
        inputs = _mapping(inputs or {}, "inputs", Tensor, 'x=evotune.tensor("T", "D")')
        outputs = _mapping(outputs or {}, "outputs", Tensor, 'o=evotune.tensor("T", "D")')
        scalars = _mapping(scalars or {}, "scalars", Scalar, 'eps=evotune.scalar(1e-5)')
        shapes = _mapping(shapes or {}, "shapes", Mapping, "large=dict(T=16384, D=4096)")
        genes = _mapping(genes or {}, "genes", Iterable, "THREADS=[64, 128]")
        if not shapes:
            raise Error("there are no shapes: write shapes=dict(large=dict(T=16384, D=4096)), with a size for each dimension")
        dims: List[str] = []
        listed: List[Dict[str, Any]] = []
        for label, sizes in shapes.items():
            sizes = dict(sizes)
            uses = [use for use in ("verify", "sanitize") if sizes.pop(use, False)]
            for dim, size in sizes.items():
                if isinstance(size, bool) or not hasattr(size, "__index__"):
                    raise Error(f"the shape {label} has {dim} = {size!r}: give a whole number")
            sizes = {dim: size.__index__() for dim, size in sizes.items()}
            for dim, n in sizes.items():
                if not 0 <= n < 1 << 63:
                    raise Error(f"the shape {label} has {dim} = {n}: give a size from 0 to below 2^63")
            dims = dims or list(sizes)
            if sorted(sizes) != sorted(dims):
                raise Error(f"the shape {label} has the dimensions {', '.join(sizes) or 'none'}, and the first one has {', '.join(dims)}: give each its size")
            for use in uses or ["tune"]:
                listed.append({"name": label, "use": use, "dims": sizes})

        self._sizes = ", ".join(f"{d}=..." for d in dims)
        self._made = [use for use in ("verify", "sanitize") if not any(s["use"] == use for s in listed)]

        data: Dict[str, types.FunctionType] = {}
        buffers: List[Dict[str, Any]] = []
        for label, t in [*inputs.items(), *((k, v) for k, v in outputs.items() if k not in inputs)]:
            role = "in" if label not in outputs else "inout" if label in inputs else "out"
            if role == "inout" and (t.dtype, t.shape) != (outputs[label].dtype, outputs[label].shape):
                raise Error(f"{label} is an input and an output with another shape or dtype: give both the same")
            b: Dict[str, Any] = {"name": label, "dtype": t.dtype, "shape": list(t.shape), "role": role, "domain": t.domain or ""}
            if isinstance(t.data, types.FunctionType):
                data[t.data.__name__] = t.data
                b["data"] = f"python({t.data.__name__})"
            elif t.data is None or isinstance(t.data, str):
                b["data"] = t.data or ""
            else:
                raise Error(f"the data of {label} is a {type(t.data).__name__}: give a text such as \"normal(0,1)\", or a function")
            if role != "out" and not b["data"] and t.dtype[0] in "iu":
                raise Error(f"the input {label} has the dtype {t.dtype}: say what is in it, such as data=\"integers(0,7)\"; an index must stay within what it indexes")
            tolerated = outputs[label].tolerance if label in outputs else None
            if tolerated is not None:
                b["tolerance"] = _tolerance(label, tolerated)
            buffers.append(b)
        arguments = [*inputs, *scalars, *dims]
        self._reference = Reference(reference, data, arguments, list(outputs))
        torch: Dict[str, str] = {}
        files = dict(self._reference.files)
        if forward is not None or backward is not None:
            written = Source()
            torch["source"] = "torch.py"
            for key, function in (("forward", forward), ("backward", backward)):
                if function is not None:
                    if not isinstance(function, types.FunctionType):
                        raise Error(f"{key} is a {type(function).__name__}: give a function")
                    written.add(function)
                    torch[key] = function.__name__
            files["torch.py"] = written.text()

        self._written: Optional[Source] = None
        if jitted(source) is not None:
            self._written = Source()
            entry = self._written.jit(source)
            source, lang = self._written.text(), lang or "Triton"
        file, text, path = _source(name, source, lang)
        self.triton = file.endswith(".py")
        self.cuda = self.triton or file.endswith(".cu")
        if args and not self.triton:
            raise Error("args is for functions of Triton: remove it")
        for what, value in (("grid", grid), ("block", block), ("shared", shared)):
            if value is not None and not self.cuda:
                raise Error(f"{what} is for kernels in CUDA, and the source is in C: remove it")
        if self.triton and grid is None:
            raise Error('a function of Triton needs its grid: write grid=["ceil(N/BLOCK)"]')
        if self.triton and (block is not None or shared is not None):
            raise Error("Triton says itself how many threads and how much shared memory it needs: remove block and shared, and make num_warps a gene")
        if self.cuda and not self.triton and (grid is None or block is None):
            raise Error('a kernel in CUDA needs its launch: write grid=["ceil(N/THREADS)"] and block=["THREADS"]')
        limits = []
        for c in [constraints] if isinstance(constraints, str) else constraints:
            expr, why = (c, "") if isinstance(c, str) else tuple(c) if isinstance(c, (tuple, list)) and len(c) == 2 else (None, None)
            if not isinstance(expr, str):
                raise Error(f"a constraint is {c!r}: give an expression as a text, or a pair of one and why")
            limits.append({"expr": expr, "why": why or "the program says so"})
        given: Dict[str, Any] = {
            "description": description or "", "dims": dims, "operations": operations or "", "pipe": pipe or "", "bytes": bytes or "",
            "reference": self._reference.keys, "files": files, "torch": torch, "shapes": listed, "buffers": buffers,
            "aliases": _mapping(aliases or {}, "aliases", str, 'len="N"'),
            "scalars": [{"name": label, "dtype": s.dtype, "value": s.value, "also": list(s.also)} for label, s in scalars.items()],
            "tolerance": {dtype_of(k): _tolerance(k, v) for k, v in (tolerance or {}).items()},
            "parameters": [{"name": label, "values": _values(label, values)} for label, values in genes.items()],
            "constraints": limits, "baseline": {k: _plain(k, v) for k, v in (baseline or {}).items()}, "target": target or "", "flags": shlex.split(flags) if isinstance(flags, str) else list(flags),
            "grid": _texts(grid, "grid"), "block": _texts(block, "block"), "shared": str(shared or ""), "python": _python,
            "args": {label: _plain(label, value) for label, value in (args or {}).items()},
        }
        self._make(file, text, path, entry, given, quiet)
        self.campaign: Optional[Campaign] = None
        """The newest campaign of this object."""

    def _make(self, file: str, text: str, path: Optional[str], entry: Optional[str], given: Dict[str, Any], quiet: bool) -> None:
        """Has tune make the folder, in a place that its content names."""
        key = hashlib.sha256("\0".join([_tune.version(), file, text, entry or "", str(path), json.dumps(given, sort_keys=True)]).encode()).hexdigest()[:16]
        above = _tune.cache() / "kernels" / key
        self.folder = above / self.name
        self.defaults: List[str] = []
        """What was assumed, a line each."""
        with tempfile.TemporaryDirectory(dir=_tune.cache()) as temp:
            source = path or os.path.join(temp, file)
            if path is None:
                with open(source, "w", encoding="utf-8") as f:
                    f.write(text)
            spec = os.path.join(temp, "given.json")
            with open(spec, "w", encoding="utf-8") as out:
                json.dump(given, out)
            made = os.path.join(temp, "made")
            os.mkdir(made)
            args = ["kernels", "new", os.path.join(made, self.name), "--from", source, "--with", spec]
            try:
                draft = _tune.ask(args + (["--entry", entry] if entry else []))
            except Error as err:
                message = str(err).split(": ", 1)[1].replace(os.path.join(temp, ""), "")
                if self._written is not None:
                    message = self._written.original(message, file)
                raise Error(self._reference.original(message.replace("choose one with --entry", "choose one with entry="))) from None
            for found in draft["taken"]:
                if found["msg"].startswith("assumed: "):
                    self.defaults.append(found["msg"][len("assumed: "):])
            same = self.folder.exists() and _same(Path(made) / self.name, self.folder)
            if not same:  # one that was changed is made again
                above.mkdir(parents=True, exist_ok=True)
                try:
                    if self.folder.exists():
                        os.replace(self.folder, os.path.join(temp, "old"))
                    os.replace(os.path.join(made, self.name), self.folder)
                except OSError:
                    if not _same(Path(made) / self.name, self.folder):  # another program was faster
                        raise
        if self.defaults and not quiet and key not in _printed:
            _printed.add(key)
            print(f"{self.name}: assumed, since nothing else was given:")
            for line in self.defaults:
                print(f"  {line}")

    def __repr__(self) -> str:
        return f"evotune.Kernel({self.name!r}, folder={str(self.folder)!r})"

    def save(self, folder: Union[str, "os.PathLike[str]"]) -> Path:
        """Writes the kernel's folder, as a person would: for ``tune lint``, ``tune run --kernels`` and git. What is there stays, unless it is the same."""
        to = Path(folder)
        if to.exists():
            if _same(self.folder, to):
                return to
            raise Error(f"{to} is already there and has something else: choose another folder, or remove it")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.folder, to)
        return to

    @property
    def _env(self) -> Dict[str, str]:
        return {"EVOTUNE_PYTHON": sys.executable} if "python" in self._reference.keys or self.triton else {}

    def lint(self, static: bool = False) -> List[str]:
        """What ``tune kernels lint`` finds wrong with the kernel, a line each. ``static`` compiles and runs nothing."""
        args = ["kernels", "lint", str(self.folder)] + (["--static"] if static else [])
        found: List[str] = _tune.ask(args, env=self._env, ok=(0, _tune.FINDINGS))
        return [self._original(text) for text in found]

    def _said(self, message: str) -> Error:
        """What tune said of this kernel as an error, with the places of the program."""
        return Error(self._original(message))

    def _original(self, message: str) -> str:
        message = message.replace(str(self.folder) + os.sep, "")
        if self._written is not None:
            message = self._written.original(message, "kernel.py")
        message = self._reference.original(message)
        def shape(m: "re.Match[str]") -> str:  # what sets a shape has another name here
            name, use = m.groups()
            made = "evotune made this shape, since none was given: give" if use in self._made else "give"
            return f"{made} one that the reference can compute, as shapes=dict({name}=dict({self._sizes}, {use}=True), ...)"

        message = re.sub(r'set other dims in kernel\.toml, \[\[problem\.shape\]\] with name = "([^"]*)" and use = "(\w+)"', shape, message)
        return message

    @property
    def store(self) -> Path:
        """The store of this kernel's campaigns, unless one is given. Another definition of the name has another: an export takes all winners of a store."""
        return _tune.cache() / f"{self.name}-{self.folder.parent.name}.db"

    def tune(
        self, time: Optional[str] = None, *, store: Union[str, "os.PathLike[str]", None] = None,
        server: Optional[Server] = None, progress: Optional[bool] = None, **settings: Unpack[RunOptions],
    ) -> Best:
        """Searches for the fastest values, and gives the best that finals have found.

        ``time`` ("60s", "10m"), ``evaluations``, ``target`` (a speedup) and ``patience`` (evaluations without a new best) are
        budgets; the first that is spent ends the search, and finals follow. ``time`` is for preparation, search and finals together,
        two minutes if there is no budget. All settings of ``tune run`` are arguments, as
        ``max_cost=2`` for ``--max-cost 2``; docs/options.md lists them. Ctrl-C ends the search after what is in flight and keeps what there is: then there
        were no finals, and :meth:`resume` goes on. ``progress`` says whether a bar is shown; by default in a terminal and in a notebook.
        """
        from ._campaign import Campaign, arguments
        return Campaign._run(self, ["run", self.name, "--kernels", str(self.folder), *arguments({"time": time, **settings})], store, server, progress)

    def resume(self, campaign: Optional[str] = None, *, time: Optional[str] = None, store: Union[str, "os.PathLike[str]", None] = None,
               server: Optional[Server] = None, progress: Optional[bool] = None, **settings: Unpack[ResumeOptions]) -> Best:
        """Goes on with a campaign that was interrupted, by default this kernel's last, or with a finished one and a larger budget."""
        from ._campaign import Campaign, arguments
        if campaign is None and self.campaign is not None:
            campaign, store, server = self.campaign.id, self.campaign.store, self.campaign.server
        return Campaign._run(self, ["resume", *([campaign] if campaign else []), *arguments({"time": time, **settings})], store, server, progress)

    def judge(self, file: Union[str, "os.PathLike[str]"], **settings: Any) -> Judgment:
        """Judges a finished kernel, a file in C or CUDA, by this kernel's reference: as ``tune judge`` does."""
        from ._campaign import Judgment, arguments
        return Judgment._of([os.fspath(file), "--kernel", self.name, "--kernels", str(self.folder), *arguments(settings)], self._env, self._said)


_printed: set[str] = set()


def _plain(name: str, value: Any) -> Gene:
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()  # a number of NumPy
    if not isinstance(value, (bool, int, float, str)):
        raise Error(f"the gene {name} has the value {value!r}: give numbers, texts, or True and False")
    if isinstance(value, float) and not math.isfinite(value):
        raise Error(f"the gene {name} has the value {value!r}: give finite numbers")
    if isinstance(value, int) and not -1 << 63 <= value < 1 << 63:
        raise Error(f"the gene {name} has the value {value}, which does not fit into 64 bits")
    return value


def _tolerance(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise Error(f"the tolerance of {name} is {value!r}: give a number from 0 to below 1")
    return float(value)


def _values(name: str, values: Any) -> List[Gene]:
    if isinstance(values, str):
        raise Error(f"the gene {name} is {values!r}: give the list of its values")
    plain = [_plain(name, v) for v in values]
    if not plain:
        raise Error(f"the gene {name} has no values: give at least one")
    return plain


_ENDINGS = {"C": ".c", "CUDA": ".cu", "TRITON": ".py"}


def _source(name: str, source: Union[str, "os.PathLike[str]"], lang: Optional[str]) -> "tuple[str, str, Optional[str]]":
    """The file's name, its text, and where it is if it is a file."""
    path: Optional[str] = None
    text = os.fspath(source)
    if not isinstance(source, str) or re.fullmatch(r"[^\n;{}()]*\.\w+\s*", source):
        path = os.path.abspath(text)
        if not path.endswith(tuple(_ENDINGS.values())):
            raise Error(f"source {os.fspath(source)}: evotune tunes files in C (.c), CUDA (.cu) and Triton (.py)")
        text = read(path, f"source {os.fspath(source)}", latin1=not path.endswith(".py"))
    if lang is None:
        triton = path and path.endswith(".py") or re.search(r"^@(triton\.)?jit\b", text, re.M)
        lang = "Triton" if triton else "CUDA" if path and path.endswith(".cu") or "__global__" in text else "C"
    if lang.upper() not in _ENDINGS:
        raise Error(f'lang is {lang!r}: there are "C", "CUDA" and "Triton"')
    ending = _ENDINGS[lang.upper()]
    if path and not path.endswith(ending):
        raise Error(f"source {os.fspath(source)}: its name must end in {ending} for {lang}")
    return name + ending, text, path


def _same(one: Path, other: Path) -> bool:
    compared = filecmp.dircmp(one, other)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    _, differ, failed = filecmp.cmpfiles(one, other, compared.common_files, shallow=False)
    return not differ and not failed and all(_same(one / d, other / d) for d in compared.common_dirs)
