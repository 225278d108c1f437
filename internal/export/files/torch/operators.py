"""The operators, as far as they are no matter of one kernel: what PyTorch computes instead of them, their
derivatives, what they return by sizes alone, and who computes a call."""

import ctypes
import hashlib
import importlib
import inspect
import math
import os
import pathlib
import sys
import types

import torch

from . import build, formulas

HERE = pathlib.Path(__file__).resolve().parent
CUDA = False  # whether the library is for GPUs
_table = {}
ops = None  # the library's helpers: the namespace of torch.ops that no other library shares
# Of the process: what packages have loaded, by the file of the operators.
_loaded = sys.modules.setdefault("_evotune_torch_loaded", types.ModuleType("_evotune_torch_loaded")).__dict__


class Operator:
    """An operator: its entry of OPS, and the functions that are named there."""

    def __init__(self, name, spec, space):
        self.name, self.spec, self.kernel = name, spec, spec["kernel"]
        self.inputs, self.outputs = spec["inputs"], spec["outputs"]
        self.forward = self.backward = None
        self.uniform = len({t["dtype"] for t in [*self.inputs, *self.outputs]}) == 1
        self.flat = True  # whether functions get tensors as the definition has them
        self.differentiable = True
        own = spec.get("own")
        self.wide = bool(own and own["reference"])  # whether functions get integers as int64 and int, as references do
        if own:
            module = importlib.import_module("." + own["module"], __package__)
            if own["forward"]:
                self.forward = self._bind(getattr(module, own["forward"]), own["module"])
            if own["backward"]:
                self.backward = self._bind(getattr(module, own["backward"]), own["module"], backward=True)
        elif spec["builtin"] and self.kernel in formulas.FORWARD:
            self.flat = False
            self.forward = self._bind(formulas.FORWARD[self.kernel], "formulas")
            lists = [t["name"] for t in self.inputs], list(spec["dims"]), list(spec["scalars"])
            self.places = [(name, i, names.index(name)) for name in self.forward[1] for i, names in enumerate(lists) if name in names]
            if self.kernel in formulas.BACKWARD:
                self.backward = self._bind(formulas.BACKWARD[self.kernel], "formulas", backward=True)
            self.differentiable = self.kernel not in formulas.NO_DERIVATIVE
        # Functions that make inputs, and what is said where one of them is not here.
        made = [t for t in self.inputs if "function" in t]
        self.makers = {t["name"]: getattr(module, t["function"]) for t in made if t["function"]}
        missing = ", ".join(t["name"] for t in made if t["name"] not in self.makers)
        self.unmade = f"{self.kernel}: not run: a function in Python makes {missing}, and the library does not contain it" if missing else ""
        self.differentiable = self.differentiable and bool(self.forward or self.backward)
        self.call = getattr(getattr(torch.ops, space), name)

    def _bind(self, function, where, backward=False):
        """The function with the names that it asks for."""
        known = [t["name"] for t in self.inputs] + list(self.spec["dims"]) + list(self.spec["scalars"])
        if backward:
            known += [t["name"] for t in self.outputs] + ["grad_" + t["name"] for t in self.outputs]
        asked = []
        for name, p in inspect.signature(function).parameters.items():
            if name in known:
                asked.append(name)
            elif p.default is p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise ImportError(f"evotune_torch: {where}.py: {function.__name__} has the parameter {name}, which {self.kernel} lacks: it has {', '.join(known)}")
        return function, asked

    def _sizes(self, dims, leading):
        """The shapes of inputs and of results."""
        return [[(*leading, *sizes[1:]) if t["leads"] else tuple(sizes) for t, sizes in zip(list_, axes)]
                for list_, axes in zip((self.inputs, self.outputs), self.spec["axes"](dims))]

    def bytes(self, dims):
        """What all tensors take at a shape."""
        return sum(math.prod(axes) * torch.empty(0, dtype=t["dtype"]).element_size()
                   for list_, shapes in zip((self.inputs, self.outputs), self.spec["axes"](dims)) for t, axes in zip(list_, shapes))

    def _leading(self, inputs):
        t, spec = inputs[0], self.inputs[0]
        return tuple(t.shape[: t.dim() - len(spec["axes"]) + 1]) if spec["leads"] else ()

    def _values(self, inputs, dims, scalars):
        shapes = self.spec["axes"](dims)[0]
        values = {}
        for spec, t, shape in zip(self.inputs, inputs, shapes):
            t = t.reshape(shape) if self.flat and spec["leads"] else t
            values[spec["name"]] = t.to(torch.int64) if self.wide and not spec["dtype"].is_floating_point else t
        values.update(zip(self.spec["dims"], dims))
        values.update(zip(self.spec["scalars"], scalars))
        values.update((name, int(values[name])) for name in self.spec["whole"] if self.wide)
        return values

    def compute(self, inputs, dims, scalars):
        """What PyTorch computes: a list of results."""
        function, asked = self.forward
        if not self.flat:  # a formula of this package needs no checks
            given = (inputs, dims, scalars)
            got = function(**{name: given[i][j] for name, i, j in self.places})
            return [got] if isinstance(got, torch.Tensor) else list(got)
        values = self._values(inputs, dims, scalars)
        for t in self.outputs:
            if t["changes"] is not None:
                values[t["name"]] = values[t["name"]].clone()  # a function may change it in place
        got = function(**{name: values[name] for name in asked})
        if isinstance(got, dict):
            got = [got[t["name"]] for t in self.outputs]
        got = [got] if isinstance(got, torch.Tensor) else list(got)
        if len(got) != len(self.outputs):
            raise RuntimeError(f"evotune::{self.name}: {function.__name__} returned {len(got)} results, expected {len(self.outputs)}")
        own = all(t.dtype == spec["dtype"] for t, spec in zip(inputs, self.inputs))
        list_ = []
        for t, spec, size in zip(got, self.outputs, self._sizes(dims, self._leading(inputs))[1]):
            if spec["leads"]:
                t = t.reshape(size)
            if tuple(t.shape) != size:
                raise RuntimeError(f"evotune::{self.name}: {function.__name__} returned {spec['name']} of the shape {tuple(t.shape)}, expected {size}")
            # Others than the kernels' types are computed in the inputs' own.
            list_.append(t.to(spec["dtype"]) if own else t.to(inputs[0].dtype) if self.uniform else t)
        return list_

    def gradients(self, grads, inputs, outputs, dims, scalars, needed):
        """The gradients of the inputs that need one."""
        if self.backward:
            function, asked = self.backward
            values = self._values(inputs, dims, scalars)
            for spec, g, shape in zip(self.outputs, grads, self.spec["axes"](dims)[1]):
                values["grad_" + spec["name"]] = g.reshape(shape) if self.flat and spec["leads"] else g
            values.update((spec["name"], t) for spec, t in zip(self.outputs, outputs))
            got = function(**{name: values[name] for name in asked})
            if isinstance(got, dict):
                got = [got.get(t["name"]) for t in self.inputs]
            got = [got] if isinstance(got, torch.Tensor) else list(got)
            if len(got) != len(self.inputs):
                raise RuntimeError(f"evotune::{self.name}: {function.__name__} returned {len(got)} gradients, expected {len(self.inputs)}: one for each input, None where there is none")
            got = [g for g, n in zip(got, needed) if n]
        else:
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_(n) for t, n in zip(inputs, needed)]
                results = [(y, g) for y, g in zip(self.compute(leaves, dims, scalars), grads) if y.requires_grad]
                if not results:
                    raise RuntimeError(f"evotune::{self.name}: its formula has no derivative")
                got = torch.autograd.grad([y for y, _ in results], [t for t, n in zip(leaves, needed) if n], [g for _, g in results], allow_unused=True)
        wanted = [t for t, n in zip(inputs, needed) if n]
        return [torch.zeros_like(t) if g is None else g.reshape(t.shape).to(t.dtype) for g, t in zip(got, wanted)]

    def fake(self, *args, **options):
        """What the operator returns, by sizes and types alone; sizes may be symbols."""
        tensors, rest = args[: len(self.inputs)], list(args[len(self.inputs) :])
        for t, spec in zip(tensors, self.inputs):
            if t.dim() < len(spec["axes"]) - spec["leads"] or not spec["leads"] and t.dim() > len(spec["axes"]):
                raise RuntimeError(f"evotune::{self.name}: {spec['arg']} has the shape {tuple(t.shape)}, expected {spec['axes']}")
        leading = self._leading(tensors)
        product = 1
        for n in leading:
            product = product * n
        dims = []
        for dim, source in zip(self.spec["dims"], self.spec["sources"]):
            if source is None:
                dims.append(int(rest.pop(0)))
                continue
            i, axis, num, add, den = source
            t, spec = tensors[i], self.inputs[i]
            size = product if spec["leads"] and axis == 0 else t.shape[t.dim() - len(spec["axes"]) + axis]
            dims.append(size if (num, add, den) == (1, 0, 1) else (size * den - add) // num)
        want, out = self._sizes(dims, leading)
        for t, spec, size in zip(tensors, self.inputs, want):
            if len(t.shape) != len(size) or any(a != b for a, b in zip(t.shape, size)):
                raise RuntimeError(f"evotune::{self.name}: {spec['arg']} has the shape {tuple(t.shape)}, expected {spec['axes']}")
        # Other types than the kernels' are computed in the inputs' own.
        own = tensors[0].dtype == self.inputs[0]["dtype"]
        made = tuple(tensors[0].new_empty(size, dtype=spec["dtype"] if own else tensors[0].dtype) for spec, size in zip(self.outputs, out))
        return made[0] if len(made) == 1 else made

    def split(self, args, options=None):
        """Tensors, dimensions and scalars of a call's arguments."""
        names = [t["arg"] for t in self.inputs] + [a["arg"] for a in self.spec["args"]]
        given = {**dict(zip(names, args)), **(options or {})}
        unknown = set(given) - set(names) - {o["arg"] for o in self.spec["options"]}
        missing = [n for n in names if n not in given]
        if len(args) > len(names) or unknown or missing:
            raise TypeError(f"evotune::{self.name} takes {', '.join(names + [o['arg'] + '=' for o in self.spec['options']])}")
        tensors = [given[t["arg"]] for t in self.inputs]
        return tensors, [int(given[a["arg"]]) for a in self.spec["args"]], [float(given.get(o["arg"], o["value"])) for o in self.spec["options"]]

    def sizes(self, args):
        """The dimensions of the operator's arguments, in the definition's order."""
        tensors, args, _ = self.split(args)
        return ops._dims(self.name, tensors, args)

    def pytorch(self, *args, **options):
        """PyTorch's own computation of the operator's arguments."""
        tensors, args, options = self.split(args, options)
        dims = ops._dims(self.name, tensors, args)
        got = self.compute(tensors, dims, ops._scalars(self.name, dims, options))
        return got[0] if len(got) == 1 else tuple(got)

    def arguments(self, dims, device, seed=1, dtype=None):
        """Inputs at a shape, as a campaign fills them, and the other arguments. A RuntimeError where nothing here makes some of
        them: a kernel may not be called on other contents."""
        if self.unmade:
            raise RuntimeError(self.unmade)
        g = torch.Generator(device=device).manual_seed(seed)
        sizes = self.spec["axes"]([dims[d] for d in self.spec["dims"]])[0]
        list_ = []
        for spec, size in zip(self.inputs, sizes):
            (distribution, a, b), how = spec["data"], dict(generator=g, device=device, dtype=torch.float32)
            if distribution == "uniform":
                t = a + (b - a) * torch.rand(size, **how)
            elif distribution == "integers":
                t = torch.floor(a + (b - a + 1) * torch.rand(size, **how))
            elif distribution == "permutation":
                (end,) = spec["ends"]([dims[d] for d in self.spec["dims"]])
                t = torch.randperm(int(end), generator=g, device=device)[: math.prod(size)].reshape(size)
            elif distribution == "offsets":
                (end,) = spec["ends"]([dims[d] for d in self.spec["dims"]])
                inner = torch.randint(int(end) + 1, (math.prod(size) - 2,), generator=g, device=device).sort().values
                t = torch.cat([inner.new_zeros(1), inner, inner.new_full((1,), int(end))]).reshape(size)
            elif distribution == "between":
                low, high = spec["ends"]([dims[d] for d in self.spec["dims"]])
                t = torch.randint(int(low), int(high) + 1, size, generator=g, device=device)
            elif distribution == "constant":
                t = torch.full(size, float(a), device=device)
            elif distribution == "python":
                t = self._made(spec["name"], size, dims, seed).to(device)
            else:  # normal
                t = a + (b or 1) * torch.randn(size, **how)
            list_.append(t.to(dtype if dtype and spec["dtype"].is_floating_point else spec["dtype"]))
        return [*list_, *((bool if a["flag"] else int)(dims[a["dim"]]) for a in self.spec["args"])]

    def empty(self, dims, device):
        """Arguments at a shape whose elements say nothing: for what computes nothing."""
        sizes = self.spec["axes"]([dims[d] for d in self.spec["dims"]])[0]
        list_ = [torch.empty(size, dtype=spec["dtype"], device=device) for spec, size in zip(self.inputs, sizes)]
        return [*list_, *((bool if a["flag"] else int)(dims[a["dim"]]) for a in self.spec["args"])]

    def _made(self, name, size, dims, seed):
        """What the definition's function makes of an input."""
        function, sizes = self.makers[name], [dims[d] for d in self.spec["dims"]]
        given = dict(zip(self.spec["scalars"], ops._scalars(self.name, sizes, [float(o["value"]) for o in self.spec["options"]])))
        given.update((name, int(given[name])) for name in self.spec["whole"])
        given.update(dims, seed=seed)
        made = function(**{p: given[p] for p in inspect.signature(function).parameters if p in given})
        if hasattr(made, "__array_interface__"):  # of NumPy, with any strides; PyTorch lacks most unsigned types
            made = made.astype("int64" if made.dtype.kind == "u" else made.dtype, order="C")
        made = torch.as_tensor(made)
        if tuple(made.shape) != tuple(size):
            raise RuntimeError(f"evotune::{self.name}: {function.__name__} returned {name} of the shape {tuple(made.shape)}, expected {tuple(size)}")
        return made


def _fresh(list_, inputs):
    """Results without gaps, with the strides of such, none of them the memory of an input."""
    taken = [t.data_ptr() for t in inputs]
    # Axes of one element may have any stride in what is contiguous: a view of other axes has the usual ones.
    return [t.clone() if t.data_ptr() in taken else t for t in (t.contiguous().flatten().view(t.shape) for t in list_)]


def _pytorch(name, inputs, dims, scalars):
    return _fresh(_table[name].compute(inputs, dims, scalars), inputs)


def _on_demand(name, inputs, args):
    from . import measure

    op = _table[name]
    return measure.on_demand(op, [*inputs, *((bool if a["flag"] else int)(n) for a, n in zip(op.spec["args"], args))])


def _backward(name, grads, inputs, outputs, args, options, needed):
    dims = ops._dims(name, inputs, args)
    scalars = ops._scalars(name, dims, options)
    return _fresh(_table[name].gradients(grads, inputs, outputs, dims, scalars, needed), [*inputs, *grads])


def _backward_fake(name, grads, inputs, outputs, args, options, needed):
    return [t.new_empty(t.shape) for t, n in zip(inputs, needed) if n]


def load(cuda, specs):
    """Loads the operators, and builds them before if need be. Gives the path of their file."""
    global CUDA, ops
    CUDA = cuda
    installed = sorted(HERE.glob("_C*.so"))
    path = str(installed[0] if installed else build.in_cache(cuda))
    if path in _loaded:  # by another copy of this package
        ops, known = _loaded[path]
        _table.update(known)
        return path
    own = "evotune_" + hashlib.sha256(path.encode()).hexdigest()[:12]
    torch.ops.load_library(path)
    register = ctypes.CDLL(path).evotune_torch_register
    register.restype, register.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    space = register(own.encode()).decode()
    ops = getattr(torch.ops, own)
    lib = torch.library.Library(own, "IMPL")
    for key in ("CPU", "CUDA"):
        lib.impl("_pytorch", _pytorch, key)
        lib.impl("_on_demand", _on_demand, key)
        lib.impl("_backward", _backward, key)
    fake = hasattr(torch.library, "register_fake")
    meta = None if fake else torch.library.Library(space, "IMPL", "Meta")
    if fake:
        torch.library.register_fake(f"{own}::_backward", _backward_fake)
    else:
        lib.impl("_backward", _backward_fake, "Meta")
    for name, spec in specs.items():
        op = _table[name] = Operator(name, spec, space)
        saves = bool(op.backward) and any(t["name"] in op.backward[1] for t in op.outputs if t["changes"] is None)
        ops._teach(name, op.forward is not None, op.differentiable, saves)
        if fake:
            torch.library.register_fake(f"{space}::{name}", op.fake)
        else:
            meta.impl(name, op.fake)
    _loaded[path] = ops, _table
    _loaded[path + " registrations"] = lib, meta  # which end with their objects
    from . import measure

    measure.load()
    use(os.environ.get("EVOTUNE_TORCH_USE") or "measured")
    return path


def find(op):
    """The Operator that a name, an operator or a callable of the package is."""
    name = op if isinstance(op, str) else str(op)
    name = name.replace("::", ".").split(".")
    name = name[1] if name[0].startswith("evotune") and len(name) > 1 else name[0]
    if name not in _table:
        raise ValueError(f"evotune_torch has no operator {op}: it has {', '.join(sorted(_table))}")
    return _table[name]


def operators():
    """All operators, by name."""
    return dict(_table)


def explain(op, *args, **options):
    """Says who would compute op(*args), an evotune kernel or PyTorch, and why."""
    op = find(op)
    try:
        tensors, args, options = op.split(args, options)
        return ops._explain(op.name, tensors, args, options)
    except (RuntimeError, TypeError) as e:
        return f"evotune::{op.name}: an error: " + str(e).splitlines()[0]


_WAYS = ("measured", "kernels", "pytorch", "measure")


class use:
    """Says who computes calls from now on, or within a "with": "measured", evotune where it was measured to be
    faster (the default); "kernels", evotune wherever it can; "pytorch", PyTorch wherever it can; "measure", as "measured",
    and the first call of a shape that nobody has measured measures it. For all threads. The variable EVOTUNE_TORCH_USE is
    what a process begins with."""

    def __init__(self, way):
        if way not in _WAYS:
            raise ValueError(f"use({way!r}): choose one of {', '.join(_WAYS)}")
        self._before = ops._prefer(_WAYS.index(way))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ops._prefer(self._before)


def prepare():
    """Loads all kernels on the current device, as it should be before CUDA graphs are captured."""
    status = ops._prepare()
    if status:
        raise RuntimeError(f"evotune_prepare returned {status}")
