"""Campaigns and candidates: what tune has found, and what to do with it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import _display, _tune
from ._progress import Progress
from ._tune import Error

if TYPE_CHECKING:
    from ._kernel import Kernel
    from ._server import Server

PathLike = Union[str, "os.PathLike[str]"]


def arguments(settings: Mapping[str, Any]) -> List[str]:
    """Settings as flags of tune: ``max_cost=2`` is ``--max-cost=2``, a list repeats its flag."""
    flags: List[str] = []
    for name, value in settings.items():
        if value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            text = str(item).lower() if isinstance(item, bool) else str(item)
            flags.append(f"--{name.replace('_', '-')}={text}")
    return flags


class Campaign:
    """A campaign in a store or in a service."""

    def __init__(self, id: str, *, kernel: Optional[Kernel] = None, store: Optional[PathLike] = None, server: Optional[Server] = None):
        self.id, self.kernel, self.server = id, kernel, server
        self.store = None if server is not None else Path(store) if store is not None else kernel.store if kernel is not None else None
        if self.store is None and server is None:
            raise Error(f"the campaign {id} has no store: give store=, or ask a server for it")

    @staticmethod
    def _run(kernel: Kernel, args: Sequence[str], store: Optional[PathLike], server: Optional[Server], show: Optional[bool]) -> Best:
        where = server.where if server is not None else ["--store", str(store if store is not None else kernel.store)]
        env = server.env if server is not None else kernel._env
        progress = Progress(kernel.name, show)
        last: Dict[str, Any] = {}
        reasons: Dict[str, int] = {}
        ids: List[str] = []

        def event(e: Dict[str, Any]) -> None:
            if e.get("event") == "started":
                ids.append(e["campaign"])
            elif e.get("event") == "evaluated" and e["verdict"] != "correct":
                reason = f"{e['verdict']}: {e.get('reason') or 'no reason given'}"
                reasons[reason] = reasons.get(reason, 0) + 1
            elif e.get("event") in ("finished", "stopped"):
                last.update(e)
            progress.event(e)

        stream = _tune.Stream([*args, *where], env)
        try:
            status = stream.follow(event, progress.interrupted, progress.update)
        finally:
            progress.close()
        id = last.get("campaign") or (ids[-1] if ids else None)
        if id is None:
            if status == _tune.INTERRUPTED:
                raise Error(f"{kernel.name}: interrupted before the campaign began")
            raise kernel._said(stream.said)
        campaign = Campaign(id, kernel=kernel, store=store, server=server)
        kernel.campaign = campaign
        if status not in (0, _tune.NO_CANDIDATE, _tune.INTERRUPTED):
            raise kernel._said(stream.said)
        best = campaign._find_best()
        if best is None:
            often = sorted(reasons.items(), key=lambda item: -item[1])
            why = f"; most often {often[0][0]}" if often else ""
            if status == _tune.INTERRUPTED:
                raise kernel._said(f"{kernel.name}: interrupted before a candidate was correct{why}: resume() goes on")
            raise kernel._said(f"{kernel.name}: no candidate is correct{why}")
        return best

    @property
    def _where(self) -> List[str]:
        return self.server.where if self.server is not None else ["--store", str(self.store)]

    @property
    def _env(self) -> Dict[str, str]:
        if self.server is not None:
            return self.server.env
        return self.kernel._env if self.kernel is not None else {}

    def _ask(self, *args: str) -> Any:
        return _tune.ask([*args, *self._where], env=self._env)

    def _rows(self, where: str = "true") -> List[Dict[str, Any]]:
        rows: List[Dict[str, Any]] = self._ask("query", where, "--campaign", self.id, "--limit", "0")
        return rows

    @property
    def summary(self) -> Dict[str, Any]:
        """What ``tune list --json`` says of it."""
        for c in self._ask("list"):
            if c["id"].startswith(self.id):
                found: Dict[str, Any] = c
                return found
        raise Error(f"there is no campaign {self.id}")

    def _find_best(self) -> Optional[Best]:
        about = self.summary
        name = (about.get("finals") or {}).get("winner") or (about.get("best") or {}).get("candidate")
        if not name:
            return None
        rows = self._rows(f'candidate == "{name}"')
        return Best._of(self, rows[0]) if rows else None

    @property
    def best(self) -> Best:
        """The winner of the finals or, without any, the best of the search."""
        found = self._find_best()
        if found is None:
            raise Error(f"the campaign {self.id} has no correct candidate: its candidates say why")
        return found

    @property
    def candidates(self) -> Any:
        """All candidates with their verdicts and times: a DataFrame or, without pandas, a list of dictionaries."""
        rows = _display.Table()
        for r in self._rows():
            row = {k: r.get(k) for k in ("index", "candidate", "verdict", "speedup", "median_ns", "baseline_ns", "measured", "finalist", "proven", "significant", "operator")}
            rows.append({**row, **r["genome"]})
        if importlib.util.find_spec("pandas") is None:
            return rows
        import pandas
        return pandas.DataFrame(list(rows))

    def candidate(self, id: str) -> Candidate:
        """A candidate by its name."""
        rows = self._rows(f'candidate == "{id}"')
        if not rows:
            raise Error(f"the campaign {self.id} has no candidate {id}")
        found: Candidate = Candidate._of(self, rows[0])
        return found

    def report(self, folder: PathLike) -> Path:
        """Writes the report of ``tune report`` into a new folder."""
        _tune.run(["report", self.id, "--out", os.fspath(folder), *self._where], env=self._env)
        return Path(folder)

    def plot(self) -> _display.Figures:
        """The figures of the report: progress, stages, genes, finals and more. A notebook shows them."""
        with tempfile.TemporaryDirectory() as temp:
            plots = self.report(os.path.join(temp, "report")) / "plots"
            order = ["progress", "progress-time", "finals", "genes", "stages", "operators"]
            names = sorted((p.stem for p in plots.glob("*.svg")), key=lambda n: (order.index(n) if n in order else len(order), n))
            return _display.Figures({n: (plots / f"{n}.svg").read_text(encoding="utf-8") for n in names})

    def importance(self) -> Any:
        """Which genes matter, as ``tune importance --json`` says."""
        return self._ask("importance", self.id)

    def judge(self, file: PathLike, **settings: Any) -> Judgment:
        """Judges a finished kernel, a file in C or CUDA, by the reference of the campaign's kernel; in a service, there."""
        if self.server is None:
            if self.kernel is None:
                raise Error("judge() needs the kernel: call it on the evotune.Kernel")
            return self.kernel.judge(file, **settings)
        name = str(self.summary["started"]["kernel"])
        return Judgment._of([os.fspath(file), "--kernel", name, *self._where, *arguments(settings)], self._env, Error)

    def pause(self) -> None:
        """Pauses it, in a service."""
        self._in_service("pause")

    def cancel(self) -> None:
        """Ends it for good, in a service."""
        self._in_service("cancel")

    def _in_service(self, what: str) -> None:
        if self.server is None:
            raise Error(f"{what}() is for campaigns in a service: here Ctrl-C ends a search, and resume() goes on")
        _tune.run([what, self.id, *self._where], env=self._env)

    def __repr__(self) -> str:
        return f"evotune.Campaign({self.id!r}, {'server=' + repr(self.server.url) if self.server is not None else 'store=' + repr(str(self.store))})"

    def _repr_html_(self) -> str:
        about = self.summary
        rows = {"campaign": self.id, "state": about.get("state"), "kernel": about["started"]["kernel"], "device": about["started"].get("device_name"),
                "evaluated": about.get("evaluated"), "verdicts": about.get("verdicts")}
        best = self._find_best()
        return _display.pairs(rows) + (best._repr_html_() if best is not None else "")


@dataclass
class Candidate:
    """A candidate of a campaign. Times are in nanoseconds; ``speedup`` is relative to the baseline."""

    campaign: Campaign
    id: str
    genome: Dict[str, Any]
    verdict: str
    speedup: Optional[float]
    median_ns: Optional[float]
    baseline_ns: Optional[float]
    measured: Optional[str]
    """Which measurement the figures are of: "finals", "again" or "search"."""
    proven: bool
    significant: bool
    unproven: str = ""
    """Why the winner of finals is not proven to be right."""

    @classmethod
    def _of(cls, campaign: Campaign, row: Mapping[str, Any]) -> Any:
        return cls(campaign, row["candidate"], dict(row["genome"]), row["verdict"], row.get("speedup"), row.get("median_ns"), row.get("baseline_ns"),
                   row.get("measured"), bool(row.get("proven")), bool(row.get("significant")), row.get("unproven") or "")

    @property
    def faster(self) -> bool:
        """Whether finals found it to be faster than the baseline. Otherwise the baseline is what to use, and exports call it."""
        return self.measured == "finals" and self.significant and (self.speedup or 0) > 1

    def __str__(self) -> str:
        genome = " ".join(f"{k}={v}" for k, v in self.genome.items())
        if not self.speedup or self.median_ns is None or self.baseline_ns is None:
            return f"{self.id}: {self.verdict}; {genome}"
        told = self.unproven or ("not faster than the baseline" if self.measured == "finals" and self.speedup <= 1 else "significant" if self.faster else "~ not significant" if self.measured == "finals" else "~ unproven: no finals")
        return f"{self.id}: {_time(self.median_ns)} against {_time(self.baseline_ns)}: {self.speedup:.3f}x ({told}); {genome}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _display.pairs({"candidate": self.id, "genome": self.genome, "verdict": self.verdict, "speedup": self.speedup,
                               "time": _time(self.median_ns), "baseline": _time(self.baseline_ns), "measured in": self.measured, "significant": self.significant})

    def verify(self, **settings: Any) -> Dict[str, Any]:
        """Judges it again in fresh processes and compares, as ``tune verify`` does. ``reproduced`` in the result is the answer."""
        c = self.campaign
        if c.server is not None:
            result: Dict[str, Any] = c.server.operation(f"/candidates/{self.id}/verify", settings)
            return result
        kernels = ["--kernels", str(c.kernel.folder)] if c.kernel is not None else []
        args = ["verify", self.id, *kernels, *arguments(settings)]
        told: Dict[str, Any] = _tune.ask([*args, *c._where], env=c._env, ok=(0, _tune.FINDINGS, _tune.BUSY))
        return told

    def lineage(self) -> Dict[str, Any]:
        """Its ancestors: the candidate with ``parents``, each with its own."""
        told: Dict[str, Any] = self.campaign._ask("lineage", self.id, "--format", "json")
        return told

    def evidence(self, folder: PathLike) -> Path:
        """Writes a folder that proves the result, as ``tune evidence`` does."""
        c = self.campaign
        if c.server is not None:
            raise Error("evidence() reads a store, and this campaign is in a service: its report() has the evidence of the best")
        kernels = ["--kernels", str(c.kernel.folder)] if c.kernel is not None else []
        _tune.run(["evidence", self.id, "--out", os.fspath(folder), *kernels, *c._where], env=c._env)
        return Path(folder)


class Best(Candidate):
    """The best of a campaign."""

    @property
    def candidates(self) -> Any:
        """All candidates of its campaign: a DataFrame or, without pandas, a list of dictionaries."""
        return self.campaign.candidates

    def plot(self) -> _display.Figures:
        """The figures of its campaign."""
        return self.campaign.plot()

    def judge(self, file: PathLike, **settings: Any) -> Judgment:
        """Judges a finished kernel by the same reference, as :meth:`Kernel.judge` does."""
        return self.campaign.judge(file, **settings)

    @property
    def _cuda(self) -> bool:
        return str(self.campaign.summary["started"].get("backend")) == "cuda"

    def export(self, folder: PathLike, *, evidence: str = "finals", **settings: Any) -> Path:
        """Writes the winner as a library, as ``tune export`` does: into a new folder, or nothing at all.

        ``evidence`` is how much must be proven: "finals", "sanitized" or "parity".
        """
        c = self.campaign
        started = c.summary["started"]
        name = started["kernel"]
        shapes = [f"--shapes={shape}" for shape in started.get("shapes") or []]
        kernels = ["--kernels", str(c.kernel.folder)] if c.kernel is not None and c.server is None else []
        lang = ["--lang", "cuda"] if self._cuda else []
        _tune.run(["export", name, "--out", os.fspath(folder), "--min-evidence", evidence, *shapes, *lang, *kernels, *arguments(settings), *c._where], env=c._env)
        return Path(folder)

    def op(self, *, evidence: str = "finals") -> "Op":
        """The winner as an operator of PyTorch: a callable that takes the inputs and gives the outputs.

        It is exported and built when it is first needed, and then timed once beside PyTorch at the shapes that it was tuned
        for: it calls the kernel where that is faster, else PyTorch (``op.explain(x)``). ``op.measure([dict(T=37, D=1003)])`` times
        further shapes. ``evidence`` is as for :meth:`export`.
        """
        if importlib.util.find_spec("torch") is None:
            raise Error("op() makes an operator of PyTorch, and this Python has no torch: install it, or use export()")
        kernel = self.campaign.summary["started"]["kernel"]
        key = hashlib.sha256(json.dumps([self.campaign.id, self.id, evidence, str(self.campaign._where)]).encode()).hexdigest()[:16]
        folder = _tune.cache() / "ops" / key
        fresh = not folder.exists()
        if fresh:
            with tempfile.TemporaryDirectory(dir=_tune.cache()) as temp:
                made = self.export(os.path.join(temp, "library"), evidence=evidence)
                folder.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.replace(made, folder)
                except OSError:
                    if not folder.exists():  # another program was not faster
                        raise
        op = Op(kernel, folder)
        if fresh:
            op.measure()
        return op


class Op:
    """An operator of PyTorch. ``operator`` is the callable itself, ``folder`` the library that it is from, ``module`` its module."""

    def __init__(self, kernel: str, folder: Path):
        self.name, self.folder = kernel.replace("-", "_"), folder
        file = folder / "torch" / "evotune_torch.py"
        package = folder / "torch" / "evotune_torch" / "__init__.py"
        if not file.exists() and not package.exists():
            raise Error(f"the library in {folder} has no operator for PyTorch: use export() and its interface in C")
        where = file if file.exists() else package
        # Several libraries live in one process, and each has a module of this name.
        alias = f"evotune_torch_{folder.name}"
        module = sys.modules.get(alias)
        if module is None:
            spec = importlib.util.spec_from_file_location(alias, where, submodule_search_locations=[str(where.parent)] if where is package else None)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[alias] = module
            try:
                spec.loader.exec_module(module)
            except Exception as err:
                del sys.modules[alias]
                raise Error(f"the operator {self.name} was not made: {err}") from None
        found = getattr(module, self.name, None)
        if found is None:
            raise Error(f"the library in {folder} has no operator {self.name} for PyTorch")
        self.operator: Callable[..., Any] = found
        self.module = module

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Who would compute ``op(*args)``, a kernel or PyTorch, and why."""
        return str(self.module.explain(self.name, *args, **kwargs))

    def measure(self, shapes: Optional[Sequence[Any]] = None) -> List[Dict[str, Any]]:
        """Times the kernel beside PyTorch, from now on and for later processes: at ``shapes``, dictionaries of dimensions or
        tuples of arguments, or at those that it was tuned for. Gives a dictionary for each, with both medians in nanoseconds."""
        return list(self.module.measure(self.name, shapes))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
        if compiling is not None and compiling():
            return self.operator(*args, **kwargs)
        try:
            return self.operator(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as err:
            raise Error(f"{self.name}: {str(err).splitlines()[0] if str(err) else type(err).__name__}") from None

    def __repr__(self) -> str:
        return f"<evotune operator {self.name} of {self.folder}>"


class Judgment(Dict[str, Any]):
    """What ``tune judge --json`` says of a file: ``verdict``, ``stage``, ``reason`` and, if it was timed, ``speedup``."""

    @staticmethod
    def _of(args: Sequence[str], env: Mapping[str, str], error: Callable[[str], Error]) -> Judgment:
        done = _tune.run(["judge", *args, "--json"], env=env, ok=(0, _tune.BUSY, *range(10, 17)))
        try:
            return Judgment(json.loads(done.stdout))
        except ValueError:
            raise error(_tune.said(done.stderr)) from None

    def __repr__(self) -> str:
        speed = f", {self['speedup']:.3f}x{'' if self.get('significant') else ' ~'}" if self.get("speedup") else ""
        return f"{self.get('file')}: {self.get('verdict')}{speed}{': ' + self['reason'] if self.get('reason') else ''}"

    def _repr_html_(self) -> str:
        return _display.pairs({k: self.get(k) for k in ("file", "verdict", "stage", "reason", "speedup", "significant") if self.get(k) is not None})


def _time(ns: Optional[float]) -> str:
    if ns is None:
        return ""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"
