#!/usr/bin/env python3
"""Compares winners of evotune with PyTorch's operators.

A winner and every way that PyTorch has to compute the same are checked against
a float64 reference, then timed in one process on the same inputs: each as a
CUDA graph of many launches, so that the host's time per call counts for nobody,
and in interleaved rounds of random order, so that clocks and temperature are
the same for all. A backend that PyTorch refuses for a shape is listed with its
reason. Kernels that are bound by memory are also timed beside a copy of as many
bytes.

    compare.py [--json FILE] WINNER...      a winner.json, or a folder that holds some
"""

import argparse
import ctypes
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
except ImportError:  # the parts that need no GPU can still be tested
    torch = None


# The largest |output - reference| over the root mean square of the reference
# that is taken for right, where a winner says nothing of its own.
TOLERANCE = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-4, "f64": 1e-10}

CTYPES = {
    "f64": ctypes.c_double,
    "f32": ctypes.c_float,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
}


TYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip


def torch_type(name):
    return getattr(torch, TYPES[name])


class Unavailable(Exception):
    """Why a contender cannot take part."""


# --- The winner's kernel ------------------------------------------------------


class Driver:
    """What is needed of libcuda, in the context that torch made current."""

    MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    LARGE_CLUSTERS = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    LOCAL, REGISTERS = 3, 4

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'error %d' % code).decode()}")


class TensorMap(ctypes.Structure):
    """CUtensorMap, which must begin at a multiple of 64 bytes."""

    _fields_ = [("words", ctypes.c_uint64 * 16)]
    # What CU_TENSOR_MAP_DATA_TYPE_ names, and bytes.
    TYPES = {
        "u8": (0, 1), "i8": (0, 1), "e4m3": (0, 1), "e5m2": (0, 1), "i16": (1, 2), "u16": (1, 2), "u32": (2, 4), "i32": (3, 4), "i64": (5, 8),
        "f16": (6, 2), "f32": (7, 4), "f64": (8, 8), "bf16": (9, 2),
    }
    SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
    PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}

    @classmethod
    def encode(cls, driver, m, address):
        """A map as winner.json has it, of the array at an address; and the memory that it lies in."""
        memory = (ctypes.c_uint8 * (ctypes.sizeof(cls) + 63))()
        out = cls.from_buffer(memory, -ctypes.addressof(memory) % 64)
        kind, size = cls.TYPES[m["dtype"]]
        rank = len(m["dims"])
        strides, step = m.get("strides") or [], size
        if not strides:  # packed
            for n in m["dims"][:-1]:
                step *= n
                strides = strides + [step]
        driver(
            "cuTensorMapEncodeTiled", ctypes.byref(out), ctypes.c_int(kind), ctypes.c_uint32(rank), ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*m["dims"]), (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
            (ctypes.c_uint32 * rank)(*m["box"]), (ctypes.c_uint32 * rank)(*[1] * rank), ctypes.c_int(0),
            ctypes.c_int(cls.SWIZZLES[m.get("swizzle", 0)]), ctypes.c_int(cls.PROMOTIONS[m.get("promotion", 0)]),
            ctypes.c_int(1 if m.get("nan") else 0),
        )  # fmt: skip
        return out


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    COOPERATIVE, CLUSTER, DEPENDENT = 2, 4, 6
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    ]  # fmt: skip

    @classmethod
    def of(cls, geometry, stream):
        attributes = []
        if any(geometry.get("cluster") or []):
            attributes.append((Attribute.CLUSTER, [max(n, 1) for n in (list(geometry["cluster"]) + [1, 1])[:3]]))
        for key, which in (("cooperative", Attribute.COOPERATIVE), ("dependent", Attribute.DEPENDENT)):
            if geometry.get(key):
                attributes.append((which, [1]))
        array = (Attribute * max(len(attributes), 1))()
        for a, (which, value) in zip(array, attributes):
            a.id = which
            a.value[: len(value)] = value
        axes = [(ctypes.c_uint * 3)(*(list(geometry[key]) + [1, 1])[:3]) for key in ("grid", "block")]
        return cls(*axes, geometry["shared"], stream, array, len(attributes))


def pack(winner, pointers, workspace=None, maps=()):
    """The arguments of the entry: dimensions, buffers, scalars, tensor maps, workspace."""
    args = [ctypes.c_int64(winner["dims"][d]) for d in winner["dims_order"]]
    args += [ctypes.c_void_p(pointers[b["name"]]) for b in winner["buffers"]]
    for s in winner.get("scalars") or []:
        value = float(s["value"]) if s["dtype"][0] == "f" else int(s["value"])
        args.append(CTYPES[s["dtype"]](value))
    args += maps
    if workspace is not None:
        args.append(ctypes.c_void_p(workspace))
    return args


def include_folders():
    """Folders that may hold cuda_fp16.h and its like."""
    folders = [pathlib.Path(os.environ[v]) / "include" for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ]
    nvcc = shutil.which("nvcc")
    if nvcc:
        folders.append(pathlib.Path(nvcc).resolve().parent.parent / "include")
    folders.append(pathlib.Path("/usr/local/cuda/include"))
    for entry in map(pathlib.Path, sys.path):
        folders += sorted(entry.glob("nvidia/*/include"))
    # cccl has the headers of the standard library for code without a host
    more = [f / "cccl" for f in folders]
    return [str(f) for f in folders + more if f.is_dir()]


def source_text(folder, winner):
    """The source, after the generated header where that lies beside it."""
    text = (folder / winner["source"]).read_text()
    header = folder / "evotune_kernel.h"
    if header.exists() and header.name not in text:
        text = f'#include "{header.name}"\n' + text
    return text


def compile_nvrtc(text, name, options):
    from cuda.bindings import nvrtc

    def check(result):
        code, *rest = result
        if int(code):
            raise RuntimeError(f"NVRTC: {code}")
        return rest[0] if rest else None

    program = check(nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), 0, [], []))
    arguments = [o.encode() for o in options]
    code = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)[0]
    if int(code):
        log = b" " * check(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError("NVRTC: " + log.decode(errors="replace").strip("\0 \n"))
    cubin = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


def compile_nvcc(text, folder, options):
    with tempfile.TemporaryDirectory() as at:
        source, out = pathlib.Path(at, "winner.cu"), pathlib.Path(at, "winner.cubin")
        source.write_text(text)
        done = subprocess.run(["nvcc", "-cubin", f"-I{folder}", *options, str(source), "-o", str(out)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError("nvcc: " + done.stderr.strip())
        return out.read_bytes()


def binary(folder, winner, recompile):
    """The winner's machine code and where it is from."""
    cubin = winner.get("cubin")
    if cubin and (folder / cubin).exists() and not recompile:
        return (folder / cubin).read_bytes(), cubin
    if not winner.get("source"):
        raise RuntimeError("it has neither a cubin nor a source")
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if str(winner.get("target", "")).endswith("a") else "")
    flags = [f for f in winner.get("flags") or [] if f]
    text = source_text(folder, winner)
    try:
        options = [f"--gpu-architecture={arch}", f"-I{folder}", *(f"-I{i}" for i in include_folders()),
                   *(f for f in flags if not f.startswith("-O"))]  # NVRTC always optimises
        return compile_nvrtc(text, winner["source"], options), "NVRTC"
    except ImportError:
        return compile_nvcc(text, folder, [f"-arch={arch}", *flags]), "nvcc"


class Kernel:
    """A winner, ready to be launched on the current stream."""

    def __init__(self, folder, winner, recompile=False):
        self.winner, self.driver = winner, Driver()
        code, self.origin = binary(folder, winner, recompile)
        module = ctypes.c_void_p()
        self.driver("cuModuleLoadData", ctypes.byref(module), code)
        self.steps = []  # the kernels in their order
        for geometry in [winner, *(winner.get("then") or [])]:
            function = ctypes.c_void_p()
            self.driver("cuModuleGetFunction", ctypes.byref(function), module, geometry.get("entry", winner["entry"]).encode())
            if geometry["shared"] > 48 << 10:
                self.driver("cuFuncSetAttribute", function, Driver.MAX_DYNAMIC_SHARED, geometry["shared"])
            if math.prod(max(n, 1) for n in geometry.get("cluster") or [1]) > 8:
                self.driver("cuFuncSetAttribute", function, Driver.LARGE_CLUSTERS, 1)
            self.steps.append((function, geometry))
        self.function = self.steps[0][0]
        self.maps = {}  # by the addresses of the arrays
        self.workspace = None
        if winner.get("workspace"):
            self.workspace = torch.zeros(winner["workspace"], dtype=torch.uint8, device="cuda")

    def attribute(self, which):
        n = ctypes.c_int()
        self.driver("cuFuncGetAttribute", ctypes.byref(n), which, self.function)
        return n.value

    def launch(self, tensors):
        w = self.winner
        # An entry has the argument wherever its implementation has a workspace,
        # also where a genome needs none of it; one too many is not looked at.
        at = self.workspace.data_ptr() if self.workspace is not None else 0
        where = {n: t.data_ptr() for n, t in tensors.items()}
        key = tuple(where.values())
        if key not in self.maps:
            self.maps[key] = [TensorMap.encode(self.driver, m, where[w["buffers"][m["buffer"]]["name"]]) for m in w.get("tensor_maps") or []]
        args = pack(w, where, at, self.maps[key])
        pointers = (ctypes.c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
        for function, geometry in self.steps:
            config = Config.of(geometry, torch.cuda.current_stream().cuda_stream)
            self.driver("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)


# --- What PyTorch has -----------------------------------------------------------
#
# For each kernel a function of the dimensions, the scalars and the tensors by
# name. It gives the reference in float64 and the operators by name: each a
# function of the tensors that gives the output. Where a kernel has several
# outputs, both are tuples of them in their order.


def sdpa_backends(sdpa, over=""):
    """The call of scaled_dot_product_attention as PyTorch chooses, and forced to each backend."""

    def forced(backend):
        def f(t):
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel(getattr(SDPBackend, backend)):
                return sdpa(t)

        return f

    return {
        "SDPA" + (over or " (PyTorch's choice)"): sdpa,
        "SDPA flash" + over: forced("FLASH_ATTENTION"),
        "SDPA cuDNN" + over: forced("CUDNN_ATTENTION"),
        "SDPA efficient" + over: forced("EFFICIENT_ATTENTION"),
        "SDPA math" + over: forced("MATH"),
    }


def attention(dims, scalars, t):
    b, heads, s, d = (dims[n] for n in ("B", "H" if "H" in dims else "HQ", "S", "D"))
    kv_heads = dims.get("HKV", heads)
    group = heads // kv_heads
    causal = bool(dims.get("CAUSAL", 0))
    scale = scalars.get("scale", 1 / math.sqrt(d))

    def sdpa(t):
        q, k, v = t["Q"].view(b, heads, s, d), *(t[n].view(b, kv_heads, s, d) for n in "KV")
        more = {"enable_gqa": True} if group > 1 else {}
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, **more)

    q, k, v = (t[n].view(-1, s, d) for n in "QKV")
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for head in range(q.shape[0]):  # one head at a time: scores in float64 are large
        scores = q[head].double() @ k[head // group].double().T * scale
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        out[head] = torch.softmax(scores, dim=-1) @ v[head // group].double()
    return out, sdpa_backends(sdpa)


def starts_on_host(dims, t):
    """Where sequences begin, on the host: for their lengths, and for a call for each."""
    t["ends"] = t["starts"].cpu()


def attention_varlen(dims, scalars, t):
    s, hq, hkv, d = (dims[n] for n in ("S", "HQ", "HKV", "D"))
    causal, scale = bool(dims["CAUSAL"]), scalars["scale"]

    def sequences(t):
        ends = t["ends"].tolist()
        return [slice(a, b) for a, b in zip(ends, ends[1:]) if a < b]

    def views(t):
        return t["Q"].view(s, hq, d), *(t[n].view(s, hkv, d) for n in "KV")

    def flash(t):
        starts, most = t["starts"], max(int(t["ends"].diff().max()), 2)
        return torch.ops.aten._flash_attention_forward(*views(t), starts, starts, most, most, 0.0, causal, False, scale=scale)[0]

    def sdpa(t):  # a call for each sequence
        q, k, v = (x.transpose(0, 1)[None] for x in views(t))
        more = {"enable_gqa": True} if hq != hkv else {}
        return torch.cat([torch.nn.functional.scaled_dot_product_attention(q[..., i, :], k[..., i, :], v[..., i, :], is_causal=causal, scale=scale, **more)[0].transpose(0, 1) for i in sequences(t)])

    q, k, v = views(t)
    out = torch.empty(s, hq, d, dtype=torch.float64, device=q.device)
    for i in sequences(t):
        for head in range(hq):
            scores = q[i, head].double() @ k[i, head // (hq // hkv)].double().T * scale
            if causal:
                scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
            out[i, head] = torch.softmax(scores, dim=-1) @ v[i, head // (hq // hkv)].double()
    return out, {"flash, sequences in one call": flash, **sdpa_backends(sdpa, " for each sequence")}


def gather_cache(dims, t):
    """The cache in the order of the tokens, as SDPA takes it: B x HKV x tokens x D. A mask where sequences do not fill their pages."""
    b, pages, page = dims["B"], dims["PAGES"], dims["PAGE"]
    for n in "KV":
        cache = t[n].view(b * pages, page, dims["HKV"], dims["D"])[t["table"].long()]
        t["gathered " + n] = cache.view(b, pages * page, dims["HKV"], dims["D"]).transpose(1, 2).contiguous()
    there = torch.arange(pages * page, device=t["lengths"].device) < t["lengths"].view(b, 1)
    if not there.all():
        t["mask"] = there.view(b, 1, 1, -1)


def decode(dims, scalars, t):
    b, hq, hkv, d, pages, page = (dims[n] for n in ("B", "HQ", "HKV", "D", "PAGES", "PAGE"))
    scale = scalars["scale"]

    def sdpa(t):
        q, k, v = t["Q"].view(b, hq, 1, d), t["gathered K"], t["gathered V"]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=t.get("mask"), scale=scale, enable_gqa=hq != hkv)

    def rows(t):  # the queries that share a head of the cache as rows of one product
        q, k, v = t["Q"].view(b, hkv, hq // hkv, d), t["gathered K"], t["gathered V"]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=t.get("mask"), scale=scale)

    table, lengths = t["table"].view(b, pages).long(), t["lengths"].tolist()
    caches = [t[n].view(b * pages, page, hkv, d) for n in "KV"]
    out = torch.zeros(b, hkv, hq // hkv, d, dtype=torch.float64, device=t["Q"].device)
    for i in range(b):
        if lengths[i]:
            k, v = (c[table[i]].view(-1, hkv, d)[: lengths[i]].double().transpose(0, 1) for c in caches)
            scores = t["Q"].view(b, hkv, -1, d)[i].double() @ k.transpose(1, 2) * scale
            out[i] = torch.softmax(scores, dim=-1) @ v
    over = " over a gathered cache"
    return out, {**sdpa_backends(sdpa, over), "SDPA" + over + ", groups as rows": rows}


def gemm(dims, scalars, t):
    m, n, k = (dims[d] for d in "MNK")

    def matmul(t):
        return torch.matmul(t["A"].view(m, k), t["B"].view(k, n))

    return t["A"].view(m, k).double() @ t["B"].view(k, n).double(), {"matmul": matmul}


def gemm_bias_gelu(dims, scalars, t):
    m, n, k = (dims[d] for d in "MNK")

    def steps(t):
        return torch.nn.functional.gelu(torch.addmm(t["bias"], t["A"].view(m, k), t["B"].view(k, n)), approximate="tanh")

    exact = t["A"].view(m, k).double() @ t["B"].view(k, n).double() + t["bias"].double()
    return torch.nn.functional.gelu(exact, approximate="tanh"), {"addmm, gelu": steps}


def gemm_residual(dims, scalars, t):
    m, n, k = (dims[d] for d in "MNK")

    def addmm(t):
        return torch.addmm(t["R"].view(m, n), t["A"].view(m, k), t["B"].view(k, n))

    return t["A"].view(m, k).double() @ t["B"].view(k, n).double() + t["R"].view(m, n).double(), {"addmm": addmm}


def gemm_batched(dims, scalars, t):
    l, m, n, k = (dims[d] for d in "LMNK")

    def bmm(t):
        return torch.bmm(t["A"].view(l, m, k), t["B"].view(l, k, n))

    return t["A"].view(l, m, k).double() @ t["B"].view(l, k, n).double(), {"bmm": bmm}


def gemm_fp8(dims, scalars, t):
    m, n, k = (dims[d] for d in "MNK")
    one = torch.ones((), device=t["A"].device)

    def scaled(t):
        return torch._scaled_mm(t["A"].view(m, k), t["B"].view(n, k).t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return t["A"].view(m, k).float().double() @ t["B"].view(n, k).float().double().t(), {"_scaled_mm": scaled}


def linear(dims, scalars, t):
    m, n, k = (dims[d] for d in "MNK")

    def f(t):
        return torch.nn.functional.linear(t["X"].view(m, k), t["W"].view(n, k))

    return t["X"].view(m, k).double() @ t["W"].view(n, k).double().t(), {"linear": f}


def table(dims):
    return dims["ROWS"], dims.get("COLS", dims.get("COLUMNS"))


def softmax(dims, scalars, t):
    def f(t):
        return torch.softmax(t["X"].view(table(dims)), dim=-1)

    return torch.softmax(t["X"].view(table(dims)).double(), dim=-1), {"softmax": f}


def layernorm(dims, scalars, t):
    columns, eps = table(dims)[1:], scalars["eps"]

    def f(t):
        return torch.nn.functional.layer_norm(t["X"].view(table(dims)), columns, t["G"], t["B"], eps)

    x = t["X"].view(table(dims)).double()
    out = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt() * t["G"].double() + t["B"].double()
    return out, {"layer_norm": f}


def rmsnorm(dims, scalars, t):
    columns, eps = table(dims)[1:], scalars["eps"]

    def f(t):
        return torch.nn.functional.rms_norm(t["X"].view(table(dims)), columns, t["W"], eps)

    x = t["X"].view(table(dims)).double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * t["W"].double(), {"rms_norm": f}


def to_e4m3(y):
    """Rows as 8-bit numbers of which the largest is 448, and their scales. y is float32: the scales must be right to 1e-5."""
    scale = y.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    return (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale.squeeze(-1)


def scaled_rows(y):
    """What to_e4m3 gives, in float64 and not rounded."""
    scale = y.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    return y / scale, scale.squeeze(-1)


def silu_mul_reference(dims, t):
    rows, columns = table(dims)
    gate, up = t["X"].view(rows, 2 * columns).double().chunk(2, -1)
    return gate / (1 + (-gate).exp()) * up


def silu_mul(dims, scalars, t):
    rows, columns = table(dims)

    def f(t):
        gate, up = t["X"].view(rows, 2 * columns).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    return silu_mul_reference(dims, t), {"silu, mul": f}


def silu_mul_fp8(dims, scalars, t):
    rows, columns = table(dims)

    def f(t):
        gate, up = t["X"].view(rows, 2 * columns).chunk(2, -1)
        return to_e4m3(torch.nn.functional.silu(gate.float()) * up)

    return scaled_rows(silu_mul_reference(dims, t)), {"silu, mul, to e4m3": f}


def rmsnorm_residual_reference(dims, scalars, t):
    h = t["X"].view(table(dims)).double() + t["R"].view(table(dims)).double()
    return h, h / (h.square().mean(-1, keepdim=True) + scalars["eps"]).sqrt() * t["W"].double()


def rmsnorm_residual(dims, scalars, t):
    columns, eps = table(dims)[1:], scalars["eps"]

    def f(t):
        h = t["X"].view(table(dims)) + t["R"].view(table(dims))
        return h, torch.nn.functional.rms_norm(h, columns, t["W"], eps)

    return rmsnorm_residual_reference(dims, scalars, t), {"add, rms_norm": f}


def rmsnorm_residual_fp8(dims, scalars, t):
    columns, eps = table(dims)[1:], scalars["eps"]

    def f(t):
        h = t["X"].view(table(dims)).float() + t["R"].view(table(dims))
        return h.to(t["X"].dtype), *to_e4m3(torch.nn.functional.rms_norm(h, columns, t["W"].float(), eps))

    h, y = rmsnorm_residual_reference(dims, scalars, t)
    return (h, *scaled_rows(y)), {"add, rms_norm, to e4m3": f}


def long_targets(dims, t):
    t["long target"] = t["target"].long()


def cross_entropy(dims, scalars, t):
    def f(t):
        x, target = t["X"].view(table(dims)).float(), t["long target"]
        loss = torch.nn.functional.cross_entropy(x, target, reduction="none")
        return loss, loss + x.gather(-1, target.unsqueeze(-1)).squeeze(-1)

    x = t["X"].view(table(dims)).double()
    lse = torch.logsumexp(x, -1)
    return (lse - x.gather(-1, t["target"].long().unsqueeze(-1)).squeeze(-1), lse), {"cross_entropy": f}


def long_slots(dims, t):
    """Indices as PyTorch takes them. The cache as a tensor of slots: what torch.compile gets must not be a view that it makes, or it copies the cache."""
    t["long positions"], t["long slots"] = t["positions"].long(), t["slots"].long()
    for n in ("KC", "VC"):
        t["slots of " + n] = t[n].view(dims["CAPACITY"], dims["HKV"], dims["D"])


def rope_kv(dims, scalars, t):
    d, heads, kv_heads = dims["D"], (dims["T"], dims["HQ"], dims["D"]), (dims["T"], dims["HKV"], dims["D"])

    def turned(x, of):
        """In the type of the angles."""
        (a, b), (cos, sin) = x.chunk(2, -1), of.unsqueeze(1).chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def f(t):
        q, k, v = t["Q"].view(heads), t["K"].view(kv_heads), t["V"].view(kv_heads)
        of, kc, vc = t["angles"].view(-1, d)[t["long positions"]], t["slots of KC"], t["slots of VC"]
        kc[t["long slots"]] = turned(k, of).to(k.dtype)
        vc[t["long slots"]] = v
        return turned(q, of).to(q.dtype), kc, vc

    of, slots = t["angles"].view(-1, d)[t["positions"].long()].double(), t["slots"].long()
    caches = torch.full((2, dims["CAPACITY"], *kv_heads[1:]), math.nan, dtype=torch.float64, device=t["K"].device)
    caches[0, slots] = turned(t["K"].view(kv_heads).double(), of)
    caches[1, slots] = t["V"].view(kv_heads).double()
    return (turned(t["Q"].view(heads).double(), of), *caches), {"rotation, index_put": f}


def reduce(dims, scalars, t):
    def f(t):
        return torch.sum(t["X"].view(table(dims)), dim=-1)

    return t["X"].view(table(dims)).double().sum(-1), {"sum": f}


def transpose(dims, scalars, t):
    def f(t):
        return t["X"].view(table(dims)).t().contiguous()

    return t["X"].view(table(dims)).t().double(), {"t().contiguous()": f}


OPERATORS = {
    "attention": attention,
    "attention-bf16": attention,
    "attention-varlen": attention_varlen,
    "attention-varlen-f16": attention_varlen,
    "cross-entropy": cross_entropy,
    "decode": decode,
    "decode-bf16": decode,
    "gemm": gemm,
    "gemm-batched": gemm_batched,
    "gemm-bf16": gemm,
    "gemm-bias-gelu": gemm_bias_gelu,
    "gemm-fp8": gemm_fp8,
    "gemm-residual": gemm_residual,
    "layernorm": layernorm,
    "linear": linear,
    "reduce": reduce,
    "rmsnorm": rmsnorm,
    "rmsnorm-residual": rmsnorm_residual,
    "rmsnorm-residual-fp8": rmsnorm_residual_fp8,
    "rope-kv": rope_kv,
    "sgemm": gemm,
    "silu-mul": silu_mul,
    "silu-mul-fp8": silu_mul_fp8,
    "softmax": softmax,
    "transpose": transpose,
}

# What adds to a set of tensors what operators take in another form than the
# kernel does. It is not timed, which is generous to PyTorch.
PREPARE = {
    "attention-varlen": starts_on_host,
    "attention-varlen-f16": starts_on_host,
    "cross-entropy": long_targets,
    "decode": gather_cache,
    "decode-bf16": gather_cache,
    "rope-kv": long_slots,
}

# Whose time is that of moving their bytes: beside them is a copy of as many.
MEMORY_BOUND = {
    "cross-entropy", "decode", "decode-bf16", "layernorm", "reduce", "rmsnorm", "rmsnorm-residual", "rmsnorm-residual-fp8", "rope-kv",
    "silu-mul", "silu-mul-fp8", "softmax", "transpose",
}  # fmt: skip

# What torch.compile makes kernels of its own for: not products, nor SDPA.
COMPILED = MEMORY_BOUND - {"decode", "decode-bf16"}


def compiled(operators):
    """The first operator through torch.compile, by name; it compiles when it is called first."""
    operator, done = next(iter(operators.values())), {}

    def through(mode=None):
        def f(t):
            if mode not in done:
                done[mode] = torch.compile(operator, fullgraph=True, dynamic=False, mode=mode)
            return done[mode](t)

        return f

    torch.compiler.reset()  # what was compiled for an earlier shape must not make this one dynamic
    return {"torch.compile": through(), "torch.compile max-autotune": through("max-autotune-no-cudagraphs")}


# How far what a copy writes lies behind what it reads, besides its size in whole 2 MiB. On an H200 some copies of
# 268 and of 537 MB ran at two thirds of the rate of others, which began elsewhere or were a few KiB larger. So
# several are timed, of whole 8 KiB where they are large, and the fastest counts.
APART = (32 << 10, 576 << 10, 1032 << 10, 1040 << 10)


def copies(winner):
    """Copies of as many bytes as the winner moves, half of them read and half written, where its time is that of moving them."""
    half = copied(winner)
    for apart in APART if half else ():
        at = -(-half // (2 << 20)) * (2 << 20) + apart
        yield Contender("copy of as many bytes", lambda t, at=at: t["room to copy"][at : at + half].copy_(t["room to copy"][:half]))


def copied(winner):
    """What a copy reads, in bytes; 0 where none is timed."""
    half = int(winner.get("bytes", 0)) // 2 if winner["kernel"] in MEMORY_BOUND else 0
    return half - half % (8192 if half > 4 << 20 else 256)


# --- Checks and clocks ----------------------------------------------------------


def error(out, reference, unwritten=False):
    """max |out - reference| / RMS(reference); infinite where it is not a number. With unwritten, what is NaN in the reference does not count."""
    out, reference = out.reshape(-1), reference.reshape(-1)
    if out.numel() != reference.numel():
        return math.inf
    if out.element_size() == 1:  # of 8 bits
        out = out.float()
    out = out.double()
    if unwritten:
        there = ~reference.isnan()
        out, reference = out[there], reference[there]
    worst = (out - reference).abs().max().item()
    scale = reference.square().mean().sqrt().item()
    return worst / scale if math.isfinite(worst) and scale > 0 else math.inf


class Outputs:
    """What a kernel must give: its outputs, their reference and how far they may be off."""

    def __init__(self, winner, reference):
        self.buffers = [b for b in winner["buffers"] if b["role"] == "out"]
        self.reference = reference if isinstance(reference, tuple) else (reference,)
        if len(self.reference) != len(self.buffers):
            raise Unavailable(f"the reference has {len(self.reference)} outputs, and the kernel {len(self.buffers)}")
        self.tolerance = {b["name"]: b.get("tolerance") or winner.get("tolerance") or TOLERANCE[b["dtype"]] for b in self.buffers}

    def clear(self, tensors):
        """Sets all bits of the outputs: NaN in every type of floating-point numbers."""
        for b in self.buffers:
            tensors[b["name"]].view(torch.uint8).fill_(255)

    def errors(self, out):
        """By output."""
        out = out if isinstance(out, tuple) else (out,)
        if len(out) != len(self.buffers):
            raise Unavailable(f"it has {len(out)} outputs, and the kernel {len(self.buffers)}")
        return {b["name"]: error(o, r, b.get("unwritten", False)) for b, o, r in zip(self.buffers, out, self.reference)}

    def worst(self, errors):
        """The output whose error is nearest to its tolerance, or farthest above it."""
        return max(errors, key=lambda n: errors[n] / self.tolerance[n])


def draw(buffer, generator, device):
    """An input as winner.json says; of a normal distribution where it does not say."""
    n, kind = buffer["elements"], torch_type(buffer["dtype"])
    if "data" not in buffer and not kind.is_floating_point:
        raise Unavailable(f"winner.json does not say what {buffer['name']} holds: make it again with tune evidence")
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", buffer.get("data") or "normal(0,1)").groups()
    if name == "python":
        raise Unavailable(f"only the definition's own Python makes the data of {buffer['name']}")
    a, b = ([float(x) for x in arguments.split(",")] + [0])[:2]
    of = {"device": device, "generator": generator}
    if name == "permutation":
        return torch.randperm(int(a), **of)[:n].to(kind)
    if name == "offsets":
        return torch.cat([torch.zeros(1, device=device), torch.randint(int(a) + 1, (n - 2,), **of).sort().values, torch.tensor([int(a)], device=device)]).to(kind)
    if name in ("between", "integers"):
        return torch.randint(int(a), int(b) + 1, (n,), **of).to(kind)
    if name == "constant":
        return torch.full((n,), a, device=device).to(kind)
    if name == "uniform":
        return (torch.rand(n, **of) * (b - a) + a).to(kind)
    return (torch.randn(n, **of) * b + a).to(kind)


def fresh(winner, seed, device="cuda"):
    """Tensors by name: inputs as the definition draws them, outputs NaN, what PyTorch wants besides, and for a copy of as many bytes."""
    generator = torch.Generator(device).manual_seed(seed)
    tensors = {}
    for b in winner["buffers"]:
        if b["role"] == "out":
            tensors[b["name"]] = torch.empty(b["elements"], dtype=torch_type(b["dtype"]), device=device)
            tensors[b["name"]].view(torch.uint8).fill_(255)
        else:
            tensors[b["name"]] = draw(b, generator, device)
    if winner["kernel"] in PREPARE:
        PREPARE[winner["kernel"]](winner["dims"], tensors)
    if half := copied(winner):
        tensors["room to copy"] = torch.randint(256, (2 * half + (4 << 20),), dtype=torch.uint8, device=device, generator=generator)
    return tensors


class Contender:
    def __init__(self, name, call):
        self.name, self.call = name, call
        self.errors = {}  # by output
        self.reason = self.graph = None
        self.samples = []  # microseconds per launch


def first_line(e):
    return (str(e).strip() or type(e).__name__).splitlines()[0][:160]


def check(contender, tensors, outputs):
    outputs.clear(tensors)  # or one could pass with what another wrote
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = contender.call(tensors)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    except Exception as e:
        # PyTorch warns why it refuses a backend, and then raises a summary.
        why = [first_line(w.message) for w in said if "not " in str(w.message)]
        raise Unavailable(" / ".join(why[:2]) or first_line(e)) from e
    judge(contender, out, outputs)


def judge(contender, out, outputs):
    errors = outputs.errors(out)
    for name, e in errors.items():
        contender.errors[name] = max(e, contender.errors.get(name, 0))
    name = outputs.worst(errors)
    if not errors[name] <= outputs.tolerance[name]:
        raise Unavailable(f"wrong: the error of {name} is {errors[name]:.2e}, above {outputs.tolerance[name]:.2e}")


def capture(contender, sets, launches):
    """A graph of launches, which go round the sets of tensors."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for t in sets:
            contender.call(t)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            contender.call(sets[i % len(sets)])
    return graph


def replay(graph):
    """Microseconds."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def measure(contenders, sets, rounds, batch_us, seed):
    """Fills the samples, all contenders once a round."""
    launches = {}
    for c in list(contenders):
        try:
            probe = capture(c, sets, len(sets))
            replay(probe)
            once = min(replay(probe) for _ in range(3)) / len(sets)
            n = max(1, min(2000, round(batch_us / once)))
            launches[c] = n + -n % len(sets)
            c.graph = capture(c, sets, launches[c])
            replay(c.graph)
        except Exception as e:
            c.reason = "no graph: " + first_line(e)
            contenders.remove(c)
    order = random.Random(seed)
    for _ in range(rounds):
        order.shuffle(contenders)
        for c in contenders:
            c.samples.append(replay(c.graph) / launches[c])


def quartiles(samples):
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    return tuple(statistics.quantiles(samples, n=4, method="inclusive"))


def row(contender, ours, outputs):
    """A contender as JSON."""
    name = outputs.worst(contender.errors) if contender.errors else None
    out = {"name": contender.name, "error": finite(contender.errors.get(name))}
    if len(contender.errors) > 1:
        out["errors"] = {n: finite(e) for n, e in contender.errors.items()}
    if not contender.samples:
        return {**out, "not_available": contender.reason}
    out["q1_us"], out["median_us"], out["q3_us"] = quartiles(contender.samples)
    # how many times as long as the winner, round by round
    out["times_winner"] = statistics.median(a / b for a, b in zip(contender.samples, ours.samples))
    return {**out, "samples_us": contender.samples}


def finite(x):
    return x if x is not None and math.isfinite(x) else None


def compare(folder, winner, options):
    dims, kernel = winner["dims"], winner["kernel"]
    if kernel not in OPERATORS:
        raise Unavailable(f"no operator of PyTorch is known for {kernel}; there are {', '.join(sorted(OPERATORS))}")
    scalars = {s["name"]: float(s["value"]) for s in winner.get("scalars") or []}
    roles = {b["name"]: b["role"] for b in winner["buffers"]}
    if set(roles.values()) - {"in", "out"}:
        raise Unavailable("only kernels whose buffers are inputs or outputs can be compared")

    kernel_of = Kernel(folder, winner, options.recompile)

    def run_winner(tensors):
        kernel_of.launch(tensors)
        return tuple(tensors[n] for n, role in roles.items() if role == "out")

    sets = [fresh(winner, options.seed + i) for i in range(options.sets)]
    reference, operators = OPERATORS[kernel](dims, scalars, sets[0])
    outputs = Outputs(winner, reference)
    before = {n: sets[0][n].clone() for n, role in roles.items() if role == "in"}
    if kernel in COMPILED:
        operators = {**operators, **compiled(operators)}
    ours = Contender("evotune", run_winner)
    contenders = [ours] + [Contender(n, f) for n, f in operators.items()]
    for c in contenders:
        try:
            check(c, sets[0], outputs)
        except Unavailable as e:
            c.reason = str(e)
            if c is ours:
                raise Unavailable(f"the winner did not pass: {e}") from e
    changed = [n for n, t in before.items() if not torch.equal(t.view(torch.uint8), sets[0][n].view(torch.uint8))]
    if changed:
        raise Unavailable(f"inputs were changed: {', '.join(changed)}")

    ceilings = list(copies(winner))
    measure([c for c in contenders if c.reason is None] + ceilings, sets, options.rounds, options.batch_us, options.seed)
    if not ours.samples:
        raise Unavailable(f"the winner was not timed: {ours.reason}")

    # Right at first is not enough: what the timed launches leave is looked at, too.
    outputs.clear(sets[0])
    ours.graph.replay()
    torch.cuda.synchronize()
    try:
        judge(ours, tuple(sets[0][b["name"]] for b in outputs.buffers), outputs)
    except Unavailable as e:
        raise Unavailable(f"the winner's answer after timing is {e}") from e

    result = {
        "kernel": kernel,
        "shape": winner["shape"],
        "dims": dims,
        "genome": winner.get("genome"),
        "candidate": winner.get("candidate"),
        "code": kernel_of.origin,
        "registers": kernel_of.attribute(Driver.REGISTERS),
        "local_bytes": kernel_of.attribute(Driver.LOCAL),
        "tolerance": outputs.tolerance,
        "sets": options.sets,
        "contenders": [row(c, ours, outputs) for c in contenders],
    }
    if ceilings:
        fastest = min(ceilings, key=lambda c: statistics.median(c.samples or [math.inf]))
        result["copy"] = row(fastest, ours, outputs)
        result.update(rates(winner["bytes"], result["contenders"][0], result["copy"]))
    return result


def rates(moved, ours, copy):
    """What the winner and the copy move, in bytes per second, and the winner's share of the copy's: the median over rounds."""
    out = {"bytes": moved, "bytes_per_second": moved / ours["median_us"] * 1e6}
    if "median_us" in copy:
        out["copy_bytes_per_second"] = moved / copy["median_us"] * 1e6
        out["copy_share"] = copy["times_winner"]
    return out


# --- The command ----------------------------------------------------------------


def show(result, out=sys.stdout):
    print(f"\n{result['kernel']} {result['shape']}  ({result['code']}, {result['registers']} registers)", file=out)
    rows = result["contenders"] + ([result["copy"]] if "copy" in result else [])
    width = max(26, *(len(r["name"]) for r in rows))
    print(f"  {'':{width}} {'median us':>10} {'q1':>9} {'q3':>9} {'x winner':>9} {'error':>9}", file=out)
    for r in sorted(rows, key=lambda r: r.get("median_us", math.inf)):
        if "median_us" not in r:
            print(f"  {r['name']:{width}} not available: {r['not_available']}", file=out)
            continue
        wrong = "" if r["error"] is None else f"{r['error']:.1e}"
        print(f"  {r['name']:{width}} {r['median_us']:10.2f} {r['q1_us']:9.2f} {r['q3_us']:9.2f} {r['times_winner']:9.3f} {wrong:>9}".rstrip(), file=out)
    if "copy_share" in result:
        ours, most = result["bytes_per_second"] / 1e12, result["copy_bytes_per_second"] / 1e12
        print(f"  {result['bytes'] / 1e6:.1f} MB: {ours:.3f} of the copy's {most:.3f} TB/s, share of the copy {result['copy_share']:.3f}", file=out)


def winners(paths):
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            found = sorted(path.rglob("winner.json"))
            if not found:
                raise SystemExit(f"{path}: no winner.json in it")
            yield from found
        else:
            yield path


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("winner", nargs="+", help="a winner.json, or a folder that holds some")
    parser.add_argument("--json", metavar="FILE", help="write everything, samples included, to FILE")
    parser.add_argument("--rounds", type=int, default=40, help="samples of each contender (40)")
    parser.add_argument("--batch-us", type=float, default=2000, help="what one sample should take, in microseconds (2000)")
    parser.add_argument("--sets", type=int, default=3, help="sets of inputs that the launches go round (3)")
    parser.add_argument("--seed", type=int, default=1, help="for inputs and the order of rounds (1)")
    parser.add_argument("--recompile", action="store_true", help="compile the source even where there is a cubin")
    options = parser.parse_args(argv)
    if torch is None or not torch.cuda.is_available():
        print("compare.py needs PyTorch and a GPU that it can use", file=sys.stderr)
        return 2
    if min(options.rounds, options.sets) < 1:
        parser.error("--rounds and --sets must be at least 1")
    torch.backends.cuda.matmul.allow_tf32 = False

    results, failed = [], 0
    for path in winners(options.winner):
        torch.cuda.synchronize()
        try:
            winner = json.loads(path.read_text())
            result = compare(path.parent, winner, options)
        except (Unavailable, RuntimeError, OSError, ValueError, KeyError) as e:
            failed += 1
            text = f"missing {e}" if isinstance(e, KeyError) else str(e)
            print(f"\n{path}: not compared: {text}", file=sys.stderr)
            results.append({"file": str(path), "not_compared": text})
            continue
        result["file"] = str(path)
        results.append(result)
        show(result)
        torch.cuda.empty_cache()
    if options.json:
        about = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "rounds": options.rounds,
            "batch_us": options.batch_us,
            "sets": options.sets,
            "seed": options.seed,
            "results": results,
        }
        pathlib.Path(options.json).write_text(json.dumps(about, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
