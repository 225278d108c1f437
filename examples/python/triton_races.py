"""Sums of columns, three ways, of which evotune must refuse two: programs that add to one element.

Prints the verdict on each way. Exit status: 0 if they are as they must be, else 1."""

import sys

import evotune
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr, HOW: tl.constexpr, PARTS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(part, M, PARTS):
        sums += tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    if HOW == "plain":  # two programs read, add and write one element
        tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < N) + sums, mask=at < N)
    elif HOW == "atomic":  # in an order that changes from launch to launch
        tl.atomic_add(y_ptr + at, sums, mask=at < N)
    else:
        tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < N) + sums, mask=at < N)


def column_sums(x, y):
    return y + x.sum(0)


def kernel():
    y = evotune.tensor("N", tolerance=1e-4)
    return evotune.Kernel(
        "triton-races", source=sums_kernel, reference=column_sums, inputs=dict(x=evotune.tensor("M", "N"), y=y), outputs=dict(y=y),
        genes=dict(HOW=["alone", "plain", "atomic"], BLOCK=[128, 256], PARTS=[1, 8]),
        constraints=["(HOW == 'plain' or HOW == 'atomic') == (PARTS == 8)"], grid=["ceil(N/BLOCK)", "PARTS"],
        shapes=dict(large=dict(M=2048, N=4096), odd=dict(M=1031, N=1003, verify=True), small=dict(M=67, N=203, sanitize=True)))


def main():
    best = kernel().tune(evaluations=8, store=sys.argv[1] if len(sys.argv) > 1 else None)
    rows = best.candidates
    rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    wrong = 0
    for row in sorted(rows, key=lambda row: str(row["HOW"])):
        right = (row["verdict"] == "correct") == (row["HOW"] == "alone")
        wrong += not right
        print(f"{row['HOW']:7} BLOCK={row['BLOCK']} {row['verdict']}{'' if right else '   <- NOT AS IT MUST BE'}")
    missing = {"alone", "plain", "atomic"} - {row["HOW"] for row in rows}
    print("not tried:", ", ".join(sorted(missing)) or "none")
    sys.exit(1 if wrong or missing else 0)


if __name__ == "__main__":
    main()
