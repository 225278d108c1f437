"""compare.py on the processor: its float64 references against the references of the built-in kernels, and
PyTorch's operators against both: python3 compare_test.py FOLDER OF compare.py < SPEC."""

import ctypes
import io
import json
import sys

import torch

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import compare

# What PyTorch 2.11 has and an older one may lack, by its documentation.
functional = torch.nn.functional
if not hasattr(functional, "rms_norm"):
    functional.rms_norm = lambda x, shape, weight, eps: x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight
if not hasattr(functional, "scaled_dot_product_attention"):

    def sdpa(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
        if enable_gqa:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        assert q.shape[:2] == k.shape[:2] == v.shape[:2]
        scores = q @ k.transpose(-1, -2) * scale
        if is_causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        return scores.softmax(-1) @ v

    functional.scaled_dot_product_attention = sdpa
if not hasattr(torch, "float8_e4m3fn"):
    torch.float8_e4m3fn = torch.float64  # which does not round

spec = json.load(sys.stdin)
missing = set(compare.OPERATORS) - {k["kernel"] for k in spec} - {"attention"}
assert not missing, missing
compared, refused, ran = 0, {}, set()
for kernel in spec:
    library = ctypes.CDLL(kernel["library"])
    for winner in kernel["winners"]:
        where = f"{winner['kernel']} {winner['shape']}"
        made = compare.fresh(winner | {"buffers": [{**b, "dtype": {"e4m3": "bf16", "e5m2": "bf16"}.get(b["dtype"], b["dtype"])} for b in winner["buffers"]]}, 3, "cpu")
        for b in winner["buffers"]:
            name, _, ends = b.get("data", "").partition("(")
            t, ends = made[b["name"]], [float(x) for x in ends.rstrip(")").split(",") if x]
            assert t.numel() == b["elements"], where
            if b["role"] == "out":
                assert t.isnan().all(), (where, b["name"], "an output is not NaN before")
            if name == "permutation":
                assert t.unique().numel() == t.numel() and 0 <= t.min() and t.max() < ends[0], (where, b["name"])
            if name == "between":
                assert ends[0] <= t.min() and t.max() <= ends[1], (where, b["name"])
                assert t.numel() < 9 or ends[0] == ends[1] or t.unique().numel() > 1, (where, b["name"])
            if name == "offsets":
                assert t[0] == 0 and t[-1] == ends[0] and (t.diff() >= 0).all(), (where, b["name"])
            if name == "uniform":
                assert ends[0] <= t.min() and t.max() <= ends[1], (where, b["name"])

        # In double precision both references must agree, and so must what PyTorch computes in it.
        wide = {"i32": "i64", "i64": "i64"}
        winner["buffers"] = [{**b, "dtype": wide.get(b["dtype"], "f64")} for b in winner["buffers"]]
        t = compare.fresh(winner, 3, "cpu")
        buffers = [t[b["name"]].double() for b in winner["buffers"]]  # one that is double already is the same tensor
        arguments = [ctypes.c_int64(winner["dims"][d]) for d in winner["dims_order"]]
        arguments += [ctypes.c_void_p(x.data_ptr()) for x in buffers]
        arguments += [ctypes.c_double(s["value"]) for s in winner["scalars"]]
        getattr(library, kernel["entry"])(*arguments)
        want = tuple(x.clone() for b, x in zip(winner["buffers"], buffers) if b["role"] == "out")
        scalars = {s["name"]: s["value"] for s in winner["scalars"]}
        reference, operators = compare.OPERATORS[winner["kernel"]](winner["dims"], scalars, t)
        outputs = compare.Outputs(winner, reference)
        for name, off in outputs.errors(want).items():
            assert off < 1e-12, (where, name, off)
        assert torch.equal(torch.cat([w.isnan().reshape(-1) for w in want]), torch.cat([r.isnan().reshape(-1) for r in outputs.reference])), where
        compared += 1

        if winner["kernel"] in ("decode", "decode-bf16") and (t["lengths"] == 0).any():
            continue  # PyTorch has NaN for a sequence of no tokens
        for name, call in operators.items():
            c = compare.Contender(name, call)
            outputs.tolerance = dict.fromkeys(outputs.tolerance, 1e-5)  # some compute in single precision
            try:
                compare.check(c, t, outputs)
                ran.add((winner["kernel"], name))
            except compare.Unavailable as e:
                assert "wrong" not in str(e), (where, name, str(e))
                refused[winner["kernel"], name] = str(e)

            # What writes nothing, or what is off, does not pass.
            outputs.clear(t)
            try:
                compare.check(compare.Contender("nothing", lambda t: tuple(t[b["name"]] for b in outputs.buffers)), t, outputs)
                raise AssertionError((where, "nothing passes"))
            except compare.Unavailable:
                pass
        for i in range(len(want)):
            off = [w.clone() for w in want]
            there = int((~off[i].reshape(-1).isnan()).nonzero()[-1])
            off[i].view(-1)[there] += 1
            try:
                compare.judge(compare.Contender("off", None), tuple(off), outputs)
                raise AssertionError((where, i, "an output that is off passes"))
            except compare.Unavailable as e:
                assert "wrong" in str(e) and outputs.buffers[i]["name"] in str(e), (where, str(e))

needed = {k for k in compare.OPERATORS if k not in ("attention", "gemm-fp8")}
assert needed <= {k for k, _ in ran}, needed - {k for k, _ in ran}
assert compare.COMPILED < compare.MEMORY_BOUND < set(compare.OPERATORS)

# A copy that takes 9 where the winner takes 10 moves as many bytes: the winner has 0.9 of its rate.
ours, ceiling, outputs = compare.Contender("evotune", None), compare.Contender("copy of as many bytes", None), outputs
ours.errors, ours.samples, ceiling.samples = {outputs.buffers[0]["name"]: 1e-3}, [10.0, 10.0, 20.0], [9.0, 9.0, 18.0]
rows = [compare.row(c, ours, outputs) for c in (ours, ceiling)]
rates = compare.rates(4e6, *rows)
assert rates == {"bytes": 4e6, "bytes_per_second": 4e11, "copy_bytes_per_second": 4e6 / 9 * 1e6, "copy_share": 0.9}, rates
out = io.StringIO()
compare.show({"kernel": "k", "shape": "s", "code": "c", "registers": 1, "contenders": rows[:1], "copy": rows[1], **rates}, out)
assert "0.400 of the copy's 0.444 TB/s, share of the copy 0.900" in out.getvalue(), out.getvalue()

print(f"compared {compared}")
print(f"{len(ran)} operators ran; refused: {refused}")
