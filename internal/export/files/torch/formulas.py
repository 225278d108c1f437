"""What PyTorch computes built-in kernels with, by the kernel's name.

Parameters are buffers, dimensions and scalars of the definition, found by name. FORWARD has the
formulas; they take tensors with any number of leading axes where the operator does. Derivatives are
PyTorch's, of the formula; BACKWARD has those of products, which need not compute the product again.
NO_DERIVATIVE lists kernels whose gradients their types could not hold."""

import functools
import math

import torch
import torch.nn.functional as F


def attention(Q, K, V, CAUSAL):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(Q, K, V, is_causal=bool(CAUSAL))
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if CAUSAL:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), -math.inf)
    return torch.softmax(scores, -1) @ V


@functools.lru_cache(maxsize=None)
def _one(device):
    return torch.ones(1, device=device)


def gemm_fp8(A, B):
    if A.dtype == torch.double:
        return A @ B.t()
    if A.is_cuda and hasattr(torch, "_scaled_mm") and A.dim() == 2 and B.shape[0] % 16 == 0 and B.shape[1] % 16 == 0:
        # What a graph allocates is the graph's: there the number is made each time, if it is not there yet.
        one = torch.ones(1, device=A.device) if torch.cuda.is_current_stream_capturing() and not _one.cache_info().currsize else _one(A.device)
        return torch._scaled_mm(A.contiguous(), B.contiguous().t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return (A.float() @ B.float().t()).to(torch.bfloat16)


def gemm_gated(A, B):
    """B has the columns of the gate and of the other by turns, in groups of eight."""
    both = A @ B
    both = both.view(*both.shape[:-1], both.shape[-1] // 16, 2, 8)
    return (F.silu(both[..., 0, :]) * both[..., 1, :]).flatten(-2)


def rmsnorm(X, W, eps=1e-5):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(X, (X.shape[-1],), W, eps)
    wide = X.to(torch.promote_types(X.dtype, torch.float))
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps) * W).to(X.dtype)


def _product(A, B):
    return A @ B


def _sum(R, A, B):
    return torch.addmm(R, A, B) if A.dim() == 2 else A @ B + R


FORWARD = {
    "attention": attention,
    "conv2d": lambda X, K: F.conv2d(X[None], K, padding=1)[0],
    "gemm": _product,
    "gemm-batched": _product,
    "gemm-bf16": _product,
    "gemm-bias-gelu": lambda A, B, bias: F.gelu(_sum(bias, A, B), approximate="tanh"),
    "gemm-fp8": gemm_fp8,
    "gemm-gated": gemm_gated,
    "gemm-residual": lambda A, B, R: _sum(R, A, B),
    "layernorm": lambda X, G, B, eps=1e-5: F.layer_norm(X, (X.shape[-1],), G, B, eps),
    "linear": lambda X, W: F.linear(X, W),
    "reduce": lambda X: X.sum(-1),
    "rmsnorm": rmsnorm,
    "sgemm": _product,
    "softmax": lambda X: torch.softmax(X, -1),
    "transpose": lambda X: X.t().contiguous(),
}


def _rows(t):
    return t.reshape(-1, t.shape[-1])


def _product_backward(grad_C, A, B):
    if B.dim() > 2:
        return grad_C @ B.transpose(-2, -1), A.transpose(-2, -1) @ grad_C
    return grad_C @ B.t(), _rows(A).t() @ _rows(grad_C)


BACKWARD = {
    "gemm": _product_backward,
    "gemm-batched": _product_backward,
    "gemm-bf16": _product_backward,
    "gemm-residual": lambda grad_C, A, B, R: (*_product_backward(grad_C, A, B), grad_C),
    "linear": lambda grad_Y, X, W: (grad_Y @ W, _rows(grad_Y).t() @ _rows(X)),
    "sgemm": _product_backward,
}

NO_DERIVATIVE = ("gemm-fp8",)
