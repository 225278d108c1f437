"""Takes over what is called with Kernel Tuner's ``tune_kernel``."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _tune
from ._kernel import Kernel, Scalar, Tensor, dtype_of
from ._tune import Error, one_line, read

_BLOCKS = ("block_size_x", "block_size_y", "block_size_z")
_USUAL_BLOCK = ("256", "1", "1")  # where no parameter gives it
_DIM = ("problem_size_x", "problem_size_y", "problem_size_z")

# How Kernel Tuner searches and measures, which evotune does in its own way.
_IGNORED = frozenset((
    "verbose", "device", "platform", "compiler", "log", "iterations", "quiet", "strategy", "strategy_options", "cache", "metrics", "simulation_mode", "observers",
    "objective", "objective_higher_is_better"))


class _Call:
    """One call of ``tune_kernel``, read argument by argument."""

    def __init__(self, name: str, source: Any, problem_size: Any, arguments: Sequence[Any], tune_params: Mapping[str, Sequence[Any]], options: Dict[str, Any]):
        self.entry, self.params, self.options = name, dict(tune_params), options
        if not isinstance(tune_params, Mapping) or not tune_params:
            raise Error("tune_params has no parameters: give a dict of lists")
        for key, values in self.params.items():
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise Error(f"tune_params: {key} is {values!r}: give the list of its values")
            self.params[key] = list(values)
        if callable(source):
            raise Error("kernel_source is a function that writes the source: call it, and give the text for one configuration, with its parameters as macros")
        if isinstance(source, (list, tuple)):
            if len(source) != 1:
                raise Error(f"kernel_source has {len(source)} files: give the one that has the kernel; files that it includes with quotes are found beside it")
            source = source[0]
        text = os.fspath(source)
        self.file: Optional[str] = None
        if "\n" not in text and "{" not in text:
            self.file = text
            text = read(text, f"kernel_source {self.file}", latin1=True)
        lang = options.pop("lang", None)
        if lang is None:
            lang = "CUDA" if "__global__" in text else "C"
        lang = {"NVCUDA": "CUDA", "CUPY": "CUDA"}.get(lang.upper(), lang.upper())
        if lang not in ("C", "CUDA"):
            raise Error(f'lang is {lang!r}: evotune tunes kernels in "C" and "CUDA"')
        self.cuda, self.text = lang == "CUDA", text
        self.signature = self._signature()
        self.arguments = list(arguments)
        if len(self.arguments) != len(self.signature):
            raise Error(f"arguments has {len(self.arguments)} items, and {name} takes {len(self.signature)}: {', '.join(a['name'] for a in self.signature)}")
        self.dims: Dict[str, int] = {}
        self.scalars: Dict[str, Scalar] = {}
        self.arrays: Dict[str, Any] = {}
        self._sort()
        self.free = True  # whether other sizes than the given ones can be computed
        self.problem = self._problem(problem_size)

    def _signature(self) -> List[Dict[str, Any]]:
        ending = ".cu" if self.cuda else ".c"
        with tempfile.TemporaryDirectory() as temp:
            path = self.file if self.file and self.file.endswith(ending) else os.path.join(temp, "kernel_source" + ending)
            if path != self.file:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(self.text)
            try:
                told = _tune.ask(["kernels", "signature", path, "--entry", self.entry])
            except Error as err:
                raise Error(str(err).split(": ", 1)[1].replace(os.path.join(temp, ""), "")) from None
        found: List[Dict[str, Any]] = told["arguments"]
        return found

    def _sort(self) -> None:
        """Sorts arguments into dimensions, scalars and arrays, by the signature."""
        for i, (value, a) in enumerate(zip(self.arguments, self.signature)):
            name, array = a["name"], hasattr(value, "shape") and len(value.shape) > 0
            if a["pointer"] != array:
                raise Error(f"argument {i} of {self.entry}, {name}, is {'a pointer' if a['pointer'] else 'a number'}, and {type(value).__name__} was given")
            if array:
                if hasattr(value, "detach"):  # of PyTorch
                    value = value.detach().cpu().numpy()
                elif hasattr(value, "get") and not hasattr(value, "__array_interface__"):  # of CuPy
                    value = value.get()
                self.arrays[name] = value
                known = dtype_of(value.dtype)
                if a.get("dtype") and a["dtype"] != known and not (known[0] in "iu" and a["dtype"][0] in "iu" and known[1:] == a["dtype"][1:]):
                    raise Error(f"argument {i} of {self.entry}, {name}, has the dtype {value.dtype}, and the source has {a['type']}")
            elif a.get("dtype") == "i64":
                self.dims[name] = int(value)
            else:
                self.scalars[name] = Scalar(repr(float(value)), a["dtype"], [])

    def _problem(self, size: Any) -> List[str]:
        """The problem's size along each axis, as expressions over dimensions."""
        if callable(size):
            raise Error("problem_size is a function: give numbers, or expressions as texts")
        if isinstance(size, (str, int)) or not hasattr(size, "__iter__"):
            size = (size,)
        out = []
        for i, n in enumerate(size):
            if callable(n):
                raise Error("problem_size has a function: give numbers, or expressions as texts")
            if isinstance(n, str):
                out.append(f"({n})")
                self.free = False
                continue
            n = int(n)
            same = [d for d, v in self.dims.items() if v == n]
            if not same:
                # The source has this size in itself, so that no other can be computed.
                if re.search(rf"\b{n}\b", self.text) or not self.dims or n > 1:
                    self.free = False
                self.dims[_DIM[i]] = n
                same = [_DIM[i]]
            out.append(same[0])
        return out

    def axis(self, n: int) -> str:
        """An axis of an array as an expression over dimensions; a number, where none is found."""
        for d, v in self.dims.items():
            if v == n:
                return d
        names = list(self.dims)
        for i, d in enumerate(names):
            for e in names[i:]:
                if self.dims[d] > 1 and self.dims[e] > 1 and self.dims[d] * self.dims[e] == n:
                    return f"{d}*{e}"
        if len(names) >= 3 and math.prod(self.dims[d] for d in names[:3]) == n:
            return "*".join(names[:3])
        if n != 1:
            self.free = False
        return str(n)

    def blocks(self) -> Tuple[List[str], List[str], List[str]]:
        """Grid and block as Kernel Tuner computes them, and the grid in C."""
        names = list(self.options.pop("block_size_names", None) or _BLOCKS)
        names += _BLOCKS[len(names):]
        grid, launched = [], []
        for i, n in enumerate(self.problem):
            divisors = self.options.pop(f"grid_div_{'xyz'[i]}", None)
            if divisors is None:
                divisors = [names[i]] if names[i] in self.params else []
            if callable(divisors):
                raise Error(f"grid_div_{'xyz'[i]} is a function: give a list of texts")
            by = "*".join(f"({d})" for d in ([divisors] if isinstance(divisors, str) else divisors)) or "1"
            grid.append(n if by == "1" else f"ceil({n} / ({by}))")
            launched.append(n if by == "1" else f"(({n}) + ({by}) - 1) / ({by})")
        for axis in "xyz":
            self.options.pop(f"grid_div_{axis}", None)
        block = [n if n in self.params else usual for n, usual in zip(names, _USUAL_BLOCK)]
        while len(block) > 1 and block[-1] == "1":
            block.pop()
        return grid, block, launched


def from_kernel_tuner(
    kernel_name: str, kernel_source: Any, problem_size: Any, arguments: Sequence[Any], tune_params: Mapping[str, Sequence[Any]], *, grid_div_x: Any = None, grid_div_y: Any = None,
    grid_div_z: Any = None, restrictions: Any = None, answer: Optional[Sequence[Any]] = None, atol: Optional[float] = None, verify: Any = None, lang: Optional[str] = None,
    smem_args: Optional[Mapping[str, Any]] = None, cmem_args: Optional[Mapping[str, Any]] = None, texmem_args: Any = None, compiler_options: Sequence[str] = (),
    block_size_names: Optional[Sequence[str]] = None, name: Optional[str] = None, reference: Optional[Callable[..., Any]] = None, outputs: Optional[Sequence[str]] = None,
    tolerance: Optional[Mapping[str, float]] = None, quiet: bool = False, **other: Any,
) -> Kernel:
    """A kernel from the arguments of Kernel Tuner's ``tune_kernel``, whose source stays as it is.

    Integers that the kernel takes are its dimensions. Candidates are compared with the kernel itself and the first valid
    configuration, and the evidence says so. With ``answer`` that configuration must give it on the given arrays, within
    ``atol``. ``reference``, a function over the names of the kernel's arguments, is better than both. Arrays that the kernel writes are those
    with an answer, ``outputs``, or those that the source assigns to; each keeps what it does not write. How to search and to
    measure (``strategy``, ``iterations``, ``observers``, ...) is given to :meth:`Kernel.tune`, and ignored here.
    """
    for key in other:
        if key not in _IGNORED:
            raise Error(f"from_kernel_tuner() has no argument {key}")
    if verify is not None:
        raise Error("verify is a function of Kernel Tuner's: give answer with atol, or reference with tolerance")
    if texmem_args:
        raise Error("texmem_args: evotune has no textures: read the array through a pointer")
    options = dict(grid_div_x=grid_div_x, grid_div_y=grid_div_y, grid_div_z=grid_div_z, block_size_names=block_size_names, lang=lang)
    call = _Call(kernel_name, kernel_source, problem_size, arguments, tune_params, options)
    label = name or re.sub(r"[^a-z0-9_-]", "-", kernel_name.lower())

    written = _written(call, answer, outputs)
    shapes_of = {array: [call.axis(int(n)) for n in value.shape] for array, value in call.arrays.items()}
    grid, block, launched = call.blocks()
    data = {array: _data(value) for array, value in call.arrays.items()}
    if any(str(value.dtype).startswith(("int", "uint")) for value in call.arrays.values()):
        call.free = False  # an index at another size would leave its array
    given: Any = reference
    about = f"{kernel_name}, from Kernel Tuner"
    if reference is None:
        given = {"baseline": True, "grid": launched, "block": block}
        about += "; its first configuration, which gives the program's answer, is the oracle" if answer is not None else "; its first configuration is the oracle"

    if not call.dims:  # what a definition has to have; the source has its sizes in itself
        call.dims = {"problem_size_x": 1}
    if re.search(r"\bgrid_size_[xyz]\b", call.text):  # which becomes a number
        call.free = False
    shapes: Dict[str, Dict[str, Any]] = {"given": dict(call.dims)}
    constraints = _restrictions(restrictions)
    if call.free:
        shapes["odd"] = {**_sizes(call.dims, (131, 203, 77)), "verify": True}
        shapes["small"] = {**_sizes(call.dims, (67, 139, 35)), "sanitize": True}
    else:  # the evidence then says that nothing ran at the odd sizes
        shapes["again"] = {**call.dims, "verify": True}
        shapes["same"] = {**call.dims, "sanitize": True}
        shapes["odd"] = {**{d: 131 if n != 131 else 203 for d, n in call.dims.items()}, "verify": True}
        constraints.append((" and ".join(f"{d} == {n}" for d, n in call.dims.items()), "the source or an array of indices is for this size alone"))
    if call.cuda:
        constraints.append(("*".join(block) + " <= device_max_threads", "a block has no more threads"))
    shared = (smem_args or {}).get("size")
    if callable(shared):
        raise Error("smem_args: size is a function: give a number, or an expression as a text")
    text = _constants(call, cmem_args or {})
    if re.search(r"\bkernel_tuner\b", text):
        text = "#define kernel_tuner 1\n" + text
    for i, axis in enumerate("xyz"):
        if re.search(rf"\bgrid_size_{axis}\b", text):
            n = launched[i] if i < len(launched) else "1"
            for d, v in call.dims.items():
                n = re.sub(rf"\b{d}\b", str(v), n)
            text = f"#define grid_size_{axis} ({n})\n" + text
    flags = [str(f) for f in compiler_options]
    if not call.cuda:
        flags = ["-std=gnu11", "-march=native", *(flags if any(f.startswith("-O") for f in flags) else ["-O3", *flags])]
    source: Any = text
    if text == call.text and call.file and call.file.endswith((".c", ".cu")):
        source = call.file
    tensors = {array: Tensor(shapes_of[array], dtype_of(value.dtype), data[array], None, None) for array, value in call.arrays.items()}
    # Each array once: whether the kernel reads what it writes is not known, and more would make honest kernels look impossible.
    moved = " + ".join(f"{value.dtype.itemsize}*" + "*".join(f"({axis})" for axis in shapes_of[array]) for array, value in call.arrays.items())
    made = Kernel(
        label, source, entry=kernel_name, reference=given, lang="CUDA" if call.cuda else "C", inputs=tensors, outputs={array: tensors[array] for array in written},
        scalars=call.scalars, genes=call.params, constraints=constraints, shapes=shapes, grid=grid if call.cuda else None, block=block if call.cuda else None,
        shared=shared if call.cuda else None, flags=flags, tolerance=tolerance, bytes=moved, description=about, quiet=quiet, _python=True)
    if answer is not None and reference is None:
        _compare(made, call, answer, atol)
    return made


def _written(call: _Call, answer: Optional[Sequence[Any]], outputs: Optional[Sequence[str]]) -> List[str]:
    """The arrays that the kernel writes."""
    by_name = {a["name"]: a for a in call.signature}
    if outputs is not None:
        written = list(outputs)
        for array in written:
            if array not in call.arrays:
                raise Error(f"outputs has {array}, which is not an array of {call.entry}: there are {', '.join(call.arrays)}")
    elif answer is not None:
        if len(answer) != len(call.signature):
            raise Error(f"answer has {len(answer)} items, and {call.entry} takes {len(call.signature)}: give None for what is not compared")
        written = [a["name"] for a, x in zip(call.signature, answer) if x is not None]
    else:
        written = [array for array in call.arrays if by_name[array]["written"]]
    if not written:
        raise Error(f"no array is written by {call.entry} as far as its source shows: name those that are, as outputs=[\"{next(iter(call.arrays), 'c')}\"]")
    for array in written:
        if by_name[array]["const"]:
            raise Error(f"{array} of {call.entry} points to const, and cannot be an output")
    return written


def _sizes(dims: Mapping[str, int], sizes: Sequence[int]) -> Dict[str, int]:
    """Smaller sizes; dimensions of one size stay so, for arrays may have one for the other."""
    distinct = sorted(set(dims.values()), reverse=True)
    chosen = {n: min(n, sizes[i % len(sizes)]) for i, n in enumerate(distinct)}
    return {d: chosen[n] for d, n in dims.items()}


def _data(array: Any) -> str:
    """Data that is like an array's."""
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise Error("an array of arguments has numbers that are not finite: fill it before the call")
    if low == high:
        return f"constant({low!r})"
    if str(array.dtype).startswith(("int", "uint")):
        return f"integers({int(low)},{int(high)})"
    return f"uniform({low!r},{high!r})"


def _restrictions(restrictions: Any) -> List[Any]:
    if restrictions is None:
        return []
    if callable(restrictions):
        raise Error("restrictions is a function: write what it says as texts, such as \"block_size_x*block_size_y <= 1024\"", _place(restrictions))
    out = []
    for r in [restrictions] if isinstance(restrictions, str) else restrictions:
        if callable(r):
            raise Error("restrictions has a function: write what it says as a text, such as \"block_size_x*block_size_y <= 1024\"", _place(r))
        if not isinstance(r, str):
            raise Error(f"restrictions has {r!r}: give texts")
        out.append((one_line(r), "a restriction of the program"))
    return out


def _place(function: Any) -> Optional[str]:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return _tune.place(code.co_filename, code.co_firstlineno)


def _constants(call: _Call, cmem: Mapping[str, Any]) -> str:
    """The source, in which arrays of constant memory hold what the program would copy there."""
    text: str = call.text
    for name, value in cmem.items():
        found = re.search(rf"__constant__\s+[^;={{}}]*\b{re.escape(name)}\s*((?:\[[^\];]*\]\s*)*);", text)
        if found is None:
            raise Error(f"cmem_args: the source declares no __constant__ {name}")
        numbers = ", ".join(repr(x) for x in value.ravel().tolist())
        braces = f"{{{numbers}}}" if found.group(1).strip() else numbers
        text = text[: found.end() - 1].rstrip() + f" = {braces};" + text[found.end():]
    return text


_RUN = """
import ctypes, json, sys
import numpy
given = json.load(open("given.json"))
arrays = [numpy.load(f"{name}.npy").astype(numpy.float64) for name in given["arrays"]]
call = ctypes.CDLL(given["library"]).reference
call(*(ctypes.c_int64(n) for n in given["dims"]), *(ctypes.c_void_p(a.ctypes.data) for a in arrays), *(ctypes.c_double(x) for x in given["scalars"]))
for name, a in zip(given["arrays"], arrays):
    numpy.save(f"{name}.npy", a)
"""

# How long the first configuration may take on the given arrays, in seconds.
_PATIENCE = 300


def _compare(kernel: Kernel, call: _Call, answer: Sequence[Any], atol: Optional[float]) -> None:
    """Runs the oracle, which is the kernel's first valid configuration, on the given arrays, and compares as Kernel Tuner does."""
    import numpy
    with tempfile.TemporaryDirectory(dir=_tune.cache()) as temp:
        library = os.path.join(temp, "reference.so")
        compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
        if compiler is None:
            raise Error("comparing with an answer needs a C compiler: install gcc, or give reference, a function that computes the outputs")
        built = subprocess.run([compiler, "-O2", "-pthread", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-o", library, str(kernel.folder / "reference.c"), "-lm"], stderr=subprocess.PIPE, text=True)
        advice = "give reference, a function that computes the outputs"
        if built.returncode:
            first = next((line for line in built.stderr.splitlines() if "error:" in line), built.stderr)
            raise Error(f"{call.entry} does not compile for the CPU, where its first configuration is compared with the answer ({first.strip()}): {advice}")
        for name, value in call.arrays.items():
            numpy.save(os.path.join(temp, f"{name}.npy"), value)
        given = {"library": library, "arrays": list(call.arrays), "dims": list(call.dims.values()), "scalars": [float(s.value) for s in call.scalars.values()]}
        with open(os.path.join(temp, "given.json"), "w", encoding="utf-8") as f:
            json.dump(given, f)
        try:
            ran = subprocess.run([sys.executable, "-c", _RUN], cwd=temp, stderr=subprocess.PIPE, text=True, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise Error(f"the first configuration of {call.entry} takes more than {_PATIENCE} s on the CPU, where it is compared with the answer: {advice}, or a smaller problem") from None
        if ran.returncode:
            raise Error(f"the first configuration of {call.entry} failed on the given arrays (status {ran.returncode}): {_tune.said(ran.stderr)}")
        for a, expected in zip(call.signature, answer):
            if expected is None:
                continue
            got = numpy.load(os.path.join(temp, f"{a['name']}.npy"))
            expected = numpy.asarray(expected)
            if expected.size != got.size:
                raise Error(f"the answer for {a['name']} has {expected.size} elements, and the array {got.size}")
            wide = expected.astype(numpy.float64).reshape(got.shape)
            if not numpy.allclose(wide, got, atol=1e-6 if atol is None else atol):
                worst = numpy.abs(wide - got)
                at = int(numpy.argmax(numpy.where(numpy.isfinite(worst), worst, numpy.inf)))
                raise Error(f"the first configuration of {call.entry} does not give the answer: element {at} of {a['name']} is {got.flat[at]:.9g}, and the answer has {wide.flat[at]:.9g}; correct the kernel, the answer or atol")
