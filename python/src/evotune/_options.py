"""The options of tune run as arguments. Written by go test ./cmd/tune -run TestOptionTables -update."""

from __future__ import annotations

from typing import Sequence, TypedDict, Union


class ResumeOptions(TypedDict, total=False):
    """What a resumption may change: the budget, and how this machine evaluates."""

    evaluations: int
    """Stop after N candidates (0: no limit)."""
    target: float
    """Stop at this speedup over the baseline (0: no limit)."""
    patience: int
    """Stop after N candidates without a new best (0: no limit)."""
    cost_per_hour: float
    """What an hour of this machine costs, for the largest cost."""
    max_cost: float
    """Stop when the campaign has cost this much, in the currency of the hour's cost (0: no limit)."""
    workers: int
    """Evaluate N candidates at once (0: two per core; for GPUs one per proposal in flight)."""
    compiler: str
    """The C compiler: gcc, clang, a path, or auto, which is gcc, else clang."""
    python: str
    """The interpreter for references in Python: a name or a path (default: python3)."""
    sanitizers: Union[str, Sequence[str]]
    """Run only these sanitizers (default: all that were found)."""
    timeout: str
    """How long a candidate may take for one stage."""
    cache_dir: str
    """Where compiled candidates and references are cached (default: the user's cache folder)."""
    cuda_worker: str
    """The GPU worker: the path of tune-cuda (default: beside tune, else on the PATH)."""
    cuda_devices: Union[str, Sequence[str]]
    """Use this GPU, by index or UUID, or all of one model with "all" (default: the first)."""
    cuda_compiler: str
    """The CUDA compiler: nvrtc, nvcc, or auto, which is NVRTC where it works, else nvcc."""
    cuda_nvcc: str
    """The path of nvcc (default: the one on the PATH, else the toolkit's)."""
    cuda_nvrtc: str
    """The path of libnvrtc.so (default: the toolkit's, else that of a Python package)."""
    cuda_sanitize_workers: int
    """Run N processes for each tool of compute-sanitizer on each GPU (0: the default)."""
    cuda_parity_workers: int
    """Compare N candidates at once on each GPU (0: the default)."""
    cuda_compile_workers: int
    """Compile N candidates for GPUs at once (0: one per core)."""
    cuda_profile: bool
    """Profile finalists with Nsight Compute where it works."""
    cache_size: int
    """How large the cache may grow, in MiB."""
    latency: str
    """Replay: let every evaluation take this DURATION."""


class RunOptions(ResumeOptions, total=False):
    """What a campaign may choose."""

    backend: str
    """Where candidates run: cuda, cpu, replay for recorded tables, or auto, which is the GPU where there is one and the kernel is for it, else the CPU."""
    shape: Union[str, Sequence[str]]
    """Tune for this SHAPE, together with the others: a name, or dimensions such as M=64,N=512 (default: the kernel's first)."""
    implementation: Union[str, Sequence[str]]
    """Search only this implementation (default: all for the backend that the device can run)."""
    strategy: str
    """How the space is searched: evolution, hillclimb or random."""
    seed: int
    """Fixes the search's path, and the data that candidates see."""
    warm_start: Union[int, str]
    """Begin with up to N genomes that won in earlier campaigns, for other shapes and devices or here; auto is 8, or none for random search and recorded tables; off, or 0, gives the path of an empty store."""
    window: int
    """Proposals in flight; part of the search's path, unlike the number of workers (0: 8, or 32 for each GPU)."""
    finalists: int
    """Measure the best N again at the end (0: no finals)."""
    sanitize: str
    """Sanitize all candidates that match the reference, or only contenders: slow ones are then timed unsanitized, and can never win."""
    strict: bool
    """Refuse a kernel that proves nothing at a tuned shape, where an input returned as output or work left out is within the tolerance, before anything is searched."""
    device: str
    """In a service: the UUID of a GPU of it, fleet for the devices of its workers, or fleet:NAME for those with this NAME in theirs (default: any of the service or, where it has none, of workers)."""
    fleet_workers: int
    """In a service: use at most N workers of its fleet at once (0: four)."""
    priority: int
    """In a service: larger priorities run first."""
