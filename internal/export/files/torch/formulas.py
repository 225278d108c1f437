"""What PyTorch computes built-in kernels with, by the kernel's name.

Parameters are buffers, dimensions and scalars of the definition, found by name. FORWARD has the
formulas; they take tensors with any number of leading axes where the operator does. Derivatives are
PyTorch's, of the formula; BACKWARD has those of products, which need not compute the product again.
NO_DERIVATIVE lists kernels whose gradients their types could not hold."""

import math

import torch
import torch.nn.functional as F


def attention(Q, K, V, CAUSAL):
    """Heads of queries that follow one another may share one of keys and values."""
    options, heads, own = {}, Q.shape[-3], K.shape[-3]
    if heads != own and Q.is_cuda and torch.__version__ >= (2, 5):
        options["enable_gqa"] = True
    elif heads != own:
        K, V = (t.repeat_interleave(heads // own, -3) for t in (K, V))
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(Q, K, V, is_causal=bool(CAUSAL), **options)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if CAUSAL:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), -math.inf)
    return torch.softmax(scores, -1) @ V


def attention_varlen(Q, K, V, starts, CAUSAL):
    """Tokens of a sequence see one another. Where flash is not there, all are seen, and those of other sequences hidden."""
    q, k, v, starts = (t.contiguous() for t in (Q.flatten(0, -3), K.flatten(0, -3), V.flatten(0, -3), starts))
    tokens, heads, own = q.shape[0], q.shape[1], k.shape[1]
    if q.is_cuda and q.dtype in (torch.half, torch.bfloat16) and hasattr(torch.ops.aten, "_flash_attention_forward"):
        most = max(tokens, 2)  # of a sequence; where it is 1, every sequence is taken to have a token
        o = torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, most, most, 0.0, bool(CAUSAL), False)[0]
        return o.reshape(Q.shape)
    if heads != own:
        k, v = (t.repeat_interleave(heads // own, 1) for t in (k, v))
    at = torch.arange(tokens, device=q.device)
    sequence = torch.searchsorted(starts[1:].long(), at, right=True)
    seen = sequence[:, None] == sequence
    if CAUSAL:
        seen = seen & (at[:, None] >= at)
    scores = q.transpose(0, 1) @ k.permute(1, 2, 0) / math.sqrt(q.shape[-1])
    o = torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ v.transpose(0, 1)
    return o.transpose(0, 1).reshape(Q.shape)


_ones = {}


def _one(device):
    """A scale of 1, kept; but what a graph allocates is the graph's."""
    one = _ones.get(device)
    if one is None:
        one = torch.ones(1, device=device)
        if not torch.cuda.is_current_stream_capturing():
            _ones[device] = one
    return one


def gemm_fp8(A, B):
    if A.dtype == torch.double:
        return A @ B.t()
    if A.is_cuda and hasattr(torch, "_scaled_mm") and A.dim() == 2 and B.shape[0] % 16 == 0 and B.shape[1] % 16 == 0:
        one = _one(A.device)
        return torch._scaled_mm(A.contiguous(), B.contiguous().t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return (A.float() @ B.float().t()).to(torch.bfloat16)


def gemm_gated(A, B):
    """B has the columns of the gate and of the other by turns, in groups of eight."""
    both = A @ B
    both = both.view(*both.shape[:-1], both.shape[-1] // 16, 2, 8)
    return (F.silu(both[..., 0, :]) * both[..., 1, :]).flatten(-2)


def decode(Q, K, V, table, lengths):
    """The heads of queries that share one of the cache are rows of one product."""
    (B, HQ, D), (_, PAGE, HKV, _), S = Q.shape, K.shape, table.shape[1] * K.shape[1]
    k, v = (cache[table.long()].reshape(B, S, HKV, D).transpose(1, 2) for cache in (K, V))
    q, count = Q.reshape(B, HKV, HQ // HKV, D), lengths.reshape(B, 1, 1, 1)
    # A sequence without tokens looks at all, and its answer is put aside.
    seen = (torch.arange(S, device=Q.device) < count) | (count == 0)
    if hasattr(F, "scaled_dot_product_attention"):
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.expand(B, 1, HQ // HKV, S))
    else:
        o = torch.softmax((q @ k.transpose(-2, -1) / math.sqrt(D)).masked_fill(~seen, -math.inf), -1) @ v
    return torch.where(count > 0, o, torch.zeros_like(o)).reshape(B, HQ, D)


def _single(t):
    """At least single precision."""
    return t.to(torch.promote_types(t.dtype, torch.float))


def cross_entropy(X, target):
    x = _single(X)
    lse = torch.logsumexp(x, -1)
    return lse - x.gather(-1, target.long()[..., None])[..., 0], lse


def rmsnorm_residual(X, R, W, eps=1e-5):
    H = X + R
    return H, rmsnorm(H, W, eps)


def silu_mul(X):
    gate, up = X.chunk(2, -1)
    return F.silu(gate) * up


def _quantized(y, dtype):
    """Each row times 448 over its largest, as 8-bit numbers, and what gives it back."""
    scale = y.abs().amax(-1).clamp(min=1e-10) / 448
    y = y / scale[..., None]
    return y if dtype == torch.double else y.clamp(-448, 448).to(torch.float8_e4m3fn), scale


def rmsnorm_residual_fp8(X, R, W, eps=1e-5):
    h = _single(X) + _single(R)
    return (h.to(X.dtype), *_quantized(h * torch.rsqrt((h * h).mean(-1, keepdim=True) + eps) * _single(W), X.dtype))


def rope_kv(Q, K, V, angles, positions, slots, CAPACITY):
    """Slots of no token are NaN here: what is there is no part of the answer."""
    c, s = angles[positions.long()][:, None, :].chunk(2, -1)

    def turned(x):
        a, b = _single(x).chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)

    def cache(x):
        return x.new_full((CAPACITY, *x.shape[1:]), math.nan).index_copy(0, slots.long(), x)

    return turned(Q), cache(turned(K)), cache(V)


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
    "attention-bf16": attention,
    "attention-varlen": attention_varlen,
    "attention-varlen-f16": attention_varlen,
    "conv2d": lambda X, K: F.conv2d(X[None], K, padding=1)[0],
    "cross-entropy": cross_entropy,
    "decode": decode,
    "decode-bf16": decode,
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
    "rmsnorm-residual": rmsnorm_residual,
    "rmsnorm-residual-fp8": rmsnorm_residual_fp8,
    "rope-kv": rope_kv,
    "sgemm": _product,
    "silu-mul": silu_mul,
    "silu-mul-fp8": lambda X: _quantized(silu_mul(_single(X)), X.dtype),
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

NO_DERIVATIVE = ("gemm-fp8", "rmsnorm-residual-fp8", "silu-mul-fp8")
