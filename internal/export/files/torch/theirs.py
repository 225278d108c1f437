"""What PyTorch computes the kernels with, and inputs for them. By the kernel's name; the arguments are those of the operator."""

import math

import torch
import torch.nn.functional as F


def _attention(q, k, v, causal):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
    return _attention_plain(q, k, v, causal)


def _attention_plain(q, k, v, causal):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    return torch.softmax(s, -1) @ v


def _rmsnorm(x, w):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, (x.shape[-1],), w, 1e-5)
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def _fp8(a, b):
    if a.dtype != torch.double:
        a, b = a.float(), b.float()
        return (a @ b.t()).to(torch.bfloat16)
    return a @ b.t()


EAGER = {
    "attention": _attention,
    "conv2d": lambda x, k: F.conv2d(x[None], k, padding=1)[0],
    "gemm": torch.matmul,
    "gemm-batched": torch.matmul,
    "gemm-bf16": torch.matmul,
    "gemm-bias-gelu": lambda a, b, bias: F.gelu(a @ b + bias, approximate="tanh"),
    "gemm-fp8": _fp8,
    "gemm-residual": lambda a, b, r: a @ b + r,
    "layernorm": lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-5),
    "linear": lambda x, w: x @ w.t(),
    "reduce": lambda x: x.sum(-1),
    "rmsnorm": _rmsnorm,
    "sgemm": lambda a, b, team: a @ b,
    "softmax": lambda x: torch.softmax(x, -1),
    "transpose": lambda x: x.t().contiguous(),
}

# The same in a form that is right in double precision.
DOUBLE = {**EAGER, "attention": _attention_plain}


def _random(sizes, data, **how):
    distribution, a, b = data
    if distribution == "normal":
        return a + b * torch.randn(sizes, **how)
    if distribution == "uniform":
        return a + (b - a) * torch.rand(sizes, **how)
    if distribution == "integers":
        return torch.floor(a + (b - a + 1) * torch.rand(sizes, **how))
    return a + 0 * torch.rand(sizes, **how)


def arguments(op, dims, device, seed=1, dtype=None):
    """Inputs of an operator, an entry of OPS, at a shape, as a campaign fills them, and its other arguments."""
    g = torch.Generator(device=device).manual_seed(seed)
    tensors = []
    for (_, own, axes), data in zip(op["inputs"], op["data"]):
        sizes = [int(a) if a.isdigit() else dims[a] for a in axes]
        tensors.append(_random(sizes, data, generator=g, device=device, dtype=torch.float32).to(dtype or own))
    return [*tensors, *(kind(dims[dim]) for _, dim, kind in op["args"])]


def double(op, args):
    """What the operator should return, in double precision."""
    wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    return DOUBLE[op["kernel"]](*wide)


def error(got, want, partly=False):
    """The largest difference relative to the root mean square of what is wanted. With partly, elements where
    that is NaN are no part of the answer; others must be most of it."""
    got = got.double()
    if partly:
        written = ~want.isnan()
        if written.sum().item() * 2 < want.numel():
            return math.nan
        got, want = got[written], want[written]
    if want.numel() == 0:
        return 0.0
    worst = (got - want).abs().max().item()
    return worst and worst / want.square().mean().sqrt().item()
