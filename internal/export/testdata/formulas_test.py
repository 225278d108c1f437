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


def call(function, values):
    return function(**{p: values[p] for p in inspect.signature(function).parameters if p in values})


for kernel in json.load(open(spec)):
    name, forward, backward = kernel["kernel"], formulas.FORWARD[kernel["kernel"]], formulas.BACKWARD.get(kernel["kernel"])
    for shape in kernel["shapes"]:
        values, pointers = dict(shape["dims"]), []
        for b in kernel["buffers"]:
            t = torch.randn(shape["axes"][b["name"]], dtype=torch.float64)
            values[b["name"]] = t
            pointers.append(ctypes.c_void_p(t.data_ptr()))
        inputs = {b["name"]: values[b["name"]] for b in kernel["buffers"] if b["role"] == "in"}
        (out,) = (b["name"] for b in kernel["buffers"] if b["role"] == "out")
        want = values.pop(out)
        dims = [ctypes.c_int64(shape["dims"][d]) for d in kernel["dims"]]
        scalars = [ctypes.c_double(x) for x in shape["scalars"]]
        values.update(zip(kernel["scalars"], shape["scalars"]))
        getattr(library, kernel["symbol"])(*dims, *pointers, *scalars)
        for t in inputs.values():
            t.requires_grad_()
        got = call(forward, values)
        off = ((got - want).abs().max() / want.square().mean().sqrt()).item()
        assert got.shape == want.shape and off < 1e-12, (name, shape["name"], got.shape, want.shape, off)
        compared += 1
        if backward:
            g = torch.randn_like(got)
            right = torch.autograd.grad(got, list(inputs.values()), g)
            for name_, a, b in zip(inputs, call(backward, {**values, "grad_" + out: g}), right):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m: f"{name} {name_}: {m}")
                derived += 1
print(f"compared {compared}, derivatives {derived}")
