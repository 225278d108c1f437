"""Formulas of PyTorch against the references of the built-in kernels, both in double precision: python3
formulas_test.py FORMULAS LIBRARY SPEC. Their derivatives, against PyTorch's of the formulas."""

import ctypes
import importlib.util
import inspect
import json
import sys

import torch

where, library, spec = sys.argv[1:]
module = importlib.util.spec_from_file_location("formulas", where)
formulas = importlib.util.module_from_spec(module)
module.loader.exec_module(formulas)
library = ctypes.CDLL(library)
torch.manual_seed(3)
compared = derived = 0
strict = {"strict": True} if sys.version_info >= (3, 10) else {}


def call(function, values):
    return function(**{p: values[p] for p in inspect.signature(function).parameters if p in values})


for kernel in json.load(open(spec)):
    name, forward, backward = kernel["kernel"], formulas.FORWARD[kernel["kernel"]], formulas.BACKWARD.get(kernel["kernel"])
    for shape in kernel["shapes"]:
        values, tensors = dict(shape["dims"]), []
        for b in kernel["buffers"]:
            made = shape["made"].get(b["name"])
            if made:
                t = torch.tensor(made, dtype=torch.float64).reshape(shape["axes"][b["name"]])
            elif b["role"] == "out":  # NaN stays where the reference writes nothing
                t = torch.full(shape["axes"][b["name"]], float("nan"), dtype=torch.float64)
            else:
                t = torch.randn(shape["axes"][b["name"]], dtype=torch.float64)
            values[b["name"]] = t.long() if made else t
            tensors.append(t)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        inputs = {b["name"]: values[b["name"]] for b in kernel["buffers"] if b["role"] == "in" and b["name"] not in shape["made"]}
        outs = [b["name"] for b in kernel["buffers"] if b["role"] == "out"]
        wanted = [values.pop(out) for out in outs]
        dims = [ctypes.c_int64(shape["dims"][d]) for d in kernel["dims"]]
        scalars = [ctypes.c_double(x) for x in shape["scalars"]]
        values.update(zip(kernel["scalars"], shape["scalars"]))
        getattr(library, kernel["symbol"])(*dims, *pointers, *scalars)
        for t in inputs.values():
            t.requires_grad_()
        got = call(forward, values)
        for one, want in zip([got] if isinstance(got, torch.Tensor) else got, wanted, **strict):
            assert one.shape == want.shape, (name, shape["name"], one.shape, want.shape)
            assert torch.equal(one.isnan(), want.isnan()), (name, shape["name"], "other elements are no part of the answer")
            one, want = one[~want.isnan()], want[~want.isnan()]
            off = ((one - want).abs().max() / want.square().mean().sqrt()).item()
            assert off < 1e-12, (name, shape["name"], off)
        compared += 1
        if backward:
            (out,) = outs
            g = torch.randn_like(got)
            right = torch.autograd.grad(got, list(inputs.values()), g)
            for name_, a, b in zip(inputs, call(backward, {**values, "grad_" + out: g}), right):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m: f"{name} {name_}: {m}")
                derived += 1
print(f"compared {compared}, derivatives {derived}")
