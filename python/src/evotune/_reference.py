"""Writes the file ``reference.py`` of a kernel's folder from functions of the caller."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
import sys
import sysconfig
import textwrap
import types
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ._tune import Error, place, read

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Source:
    """The text of a ``reference.py``, and where each of its lines comes from."""

    def __init__(self) -> None:
        self.imports: Dict[str, None] = {}  # in their order, each once
        self.constants: Dict[str, Tuple[str, str]] = {}  # the value as text, and the place
        self.functions: Dict[str, Tuple[types.FunctionType, List[str], str, int]] = {}
        self.roots: Set[str] = set()  # the top packages of modules that are used
        self.starts: List[Tuple[int, int, str, int]] = []  # first and last line here, file and first line there

    def jit(self, value: Any) -> str:
        """Takes a function of Triton with all that it refers to, and gives its name."""
        function = jitted(value)
        assert function is not None
        self.imports["import triton"] = None
        self.add(function, "@triton.jit")
        return str(function.__name__)

    def add(self, function: types.FunctionType, decorator: str = "") -> None:
        """Takes a function with all that it refers to; the decorator is the one that it keeps."""
        name = function.__name__
        known = self.functions.get(name)
        if known is not None:
            if known[0] is not function:
                raise Error(f"there are two functions {name} that the reference needs: rename one", where(function))
            return
        file, line = where(function).rsplit(":", 1)
        if name == "<lambda>":
            raise Error("a reference is written to a file of its own, which a lambda cannot be: write it with def", where(function))
        if function.__closure__:
            raise Error(f"{name} uses {', '.join(function.__code__.co_freevars)} of the function around it: pass modules and constants of the module's level alone", where(function))
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise Error(f"the source of {name} is not to be found: define it in a file or a notebook's cell", where(function)) from None
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise Error(f"{name} is not a plain function: write it with def", where(function))
        if decorator:
            text = "\n".join([decorator, *text.splitlines()[tree.lineno - 1:]])
            tree.decorator_list, first = [], first + tree.lineno - 2
        if tree.decorator_list:
            raise Error(f"{name} has a decorator, which cannot be written to the reference: remove it", where(function))
        self.functions[name] = (function, text.splitlines(), file, first)
        for used in sorted(loaded(tree)):
            if used in function.__globals__:
                self.need(used, function.__globals__[used], function)
            elif not hasattr(builtins, used):
                raise Error(f"{name} uses {used}, which is not defined: define it before the kernel", where(function))

    def need(self, name: str, value: Any, by: types.FunctionType) -> None:
        """Takes what a function refers to."""
        if isinstance(value, types.ModuleType):
            self.roots.add(value.__name__.split(".")[0])
            self.imports[f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"] = None
        elif isinstance(value, types.FunctionType) and not installed(value.__module__):
            if value.__name__ != name:
                raise Error(f"{by.__name__} uses {name}, which is another name of the function {value.__name__}: use that one", where(by))
            self.add(value)
        elif jitted(value) is not None and not installed(jitted(value).__module__):
            self.jit(value)
        elif type(value).__name__ == "constexpr" and isinstance(value.value, _PLAIN):
            self.imports["import triton.language"] = None
            self.constants[name] = (f"triton.language.constexpr({value.value!r})", where(by))
        elif isinstance(value, _PLAIN) or isinstance(value, (tuple, list)) and all(isinstance(x, _PLAIN) for x in value):
            text = repr(float(value) if isinstance(value, float) else value)
            if isinstance(value, float) and text in ("inf", "-inf", "nan"):
                text = f"float({text!r})"
            known = self.constants.get(name)
            if known is not None and known[0] != text:
                raise Error(f"{name} is {known[0]} and {text} in two modules: rename one", where(by))
            self.constants[name] = (text, where(by))
        elif getattr(value, "__module__", None) and getattr(value, "__qualname__", "<").isidentifier():
            self.roots.add(value.__module__.split(".")[0])
            self.imports[f"from {value.__module__} import {value.__qualname__}" + (f" as {name}" if value.__qualname__ != name else "")] = None
        elif type(value).__module__ == "torch" and type(value).__name__ == "dtype":
            self.roots.add("torch")
            self.imports["import torch"] = None
            self.constants[name] = (repr(value), where(by))
        else:
            raise Error(f"{by.__name__} uses {name}, a {type(value).__name__}, which cannot be written to a file: make it inside of {by.__name__}, or use a number", where(by))

    def text(self) -> str:
        """The file's text."""
        lines = ["# Written by the Python package evotune from the functions of a program."]
        lines += list(self.imports)
        lines += [f"{name} = {value}" for name, (value, _) in self.constants.items()]
        for _, body, file, first in self.functions.values():
            lines += ["", ""]
            self.starts.append((len(lines) + 1, len(lines) + len(body), file, first))
            lines += body
        return "\n".join(lines) + "\n"

    def original(self, message: str, file: str = "reference.py") -> str:
        """A message with the places of the file that was written as those of the program."""
        name = file
        def replace(m: "re.Match[str]") -> str:
            line = int(m.group(1))
            for begin, end, file, first in self.starts:
                if begin <= line <= end:
                    return f"{file}:{line - begin + first}"
            return m.group(0)
        return re.sub(r'(?:[^\s"]*/)?' + re.escape(name) + r'(?:", line |:)(\d+)', replace, message)


def jitted(value: Any) -> Any:
    """The function of Python in a function of Triton, whatever autotuners and heuristics are around it; None for anything else."""
    while type(value).__module__.split(".")[0] == "triton" and hasattr(value, "fn"):
        value = value.fn
        if isinstance(value, types.FunctionType):
            return value
    return None


def where(function: Callable[..., Any]) -> str:
    code = function.__code__
    return place(code.co_filename, code.co_firstlineno)


def installed(module: str) -> bool:
    """Whether a module is found by every program of this Python, unlike one beside the caller."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module != "__main__"
    return any(os.path.abspath(file).startswith(os.path.join(sysconfig.get_path(p), "")) for p in ("stdlib", "platstdlib", "purelib", "platlib")) or "dist-packages" in file


def loaded(tree: ast.FunctionDef) -> Set[str]:
    """The names that are read and nowhere assigned."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    kept = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    kept |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    kept |= {(a.asname or a.name).split(".")[0] for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    kept |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return read - kept


class Reference:
    """What a kernel's results are compared with: the keys of ``[problem.reference]``, and files."""

    def __init__(self, given: Any, data: Mapping[str, types.FunctionType], arguments: Sequence[str], outputs: Sequence[str]):
        self.keys: Dict[str, Any] = {}
        self.files: Dict[str, str] = {}
        self.source: Optional[Source] = None
        file = None
        if isinstance(given, (str, os.PathLike)):
            file, _, entry = os.fspath(given).partition(":")
            if not file.endswith((".py", ".c")):
                raise Error(f'reference is {os.fspath(given)!r}: give a function, or "file.py:function" or "file.c:function"')
            text = read(file, f"reference {file}", latin1=file.endswith(".c"))
            if file.endswith(".c"):
                self.keys = {"source": "reference.c", "entry": entry or "reference"}
                self.files["reference.c"] = text
            else:
                self.keys = {"python": "reference.py", "entry": entry or "reference"}
                self.files["reference.py"] = text
                if data:
                    raise Error("functions that make data are written to the reference's file, which is a file of its own here: put them there, and name them as data=\"python(NAME)\"")
                if re.search(r"^\s*(import|from) torch\b", text, re.M):
                    self.keys["library"] = "torch"
                elif re.search(r"^\s*(import|from) numpy\b", text, re.M):
                    self.keys["library"] = "numpy"
        elif isinstance(given, types.FunctionType):
            known = list(arguments)
            for parameter in inspect.signature(given).parameters.values():
                if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    raise Error(f"{given.__name__} takes *{parameter.name}: name what it gets, of {', '.join(known)}", where(given))
                if parameter.name not in known and parameter.default is parameter.empty:
                    raise Error(f"{given.__name__} has the parameter {parameter.name}, which is not an input, a scalar or a dimension: there are {', '.join(known)}", where(given))
            self.source = Source()
            self.source.add(given)
            self.keys = {"python": "reference.py", "entry": given.__name__}
        elif isinstance(given, dict):  # keys that this package has written
            self.keys = given
        elif given is None:
            raise Error("there is no reference: give a function that computes the outputs in float64")
        else:
            raise Error(f"reference is a {type(given).__name__}: give a function, or \"file.py:function\" or \"file.c:function\"")
        if data and self.keys.get("source"):
            raise Error("a function that makes data needs a reference in Python")
        for function in data.values():
            assert self.source is not None
            self.source.add(function)
        if self.source is not None:
            if "torch" in self.source.roots:
                self.keys["library"] = "torch"
            elif "numpy" in self.source.roots:
                self.keys["library"] = "numpy"
            else:
                self.keys.update(library())
            self.files["reference.py"] = self.source.text()

    def original(self, message: str) -> str:
        return self.source.original(message) if self.source is not None else message


def library() -> Dict[str, str]:
    """The library whose arrays a reference gets that names none: PyTorch where the program uses it."""
    from importlib.util import find_spec
    for name in ("torch", "numpy") if "torch" in sys.modules else ("numpy", "torch"):
        if find_spec(name) is not None:
            return {"library": name}
    raise Error("a reference in Python needs NumPy or PyTorch, and this Python has neither: install one, or give a reference in C")
