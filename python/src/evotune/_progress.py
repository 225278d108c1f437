"""Shows how a campaign goes: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Dict, Optional, Tuple


class Progress:
    """What events tell of a campaign. ``show`` None means: where somebody looks."""

    def __init__(self, kernel: str, show: Optional[bool]):
        self.kernel, self.phase, self.evaluated, self.best, self.significant, self.beaten = kernel, "preparing", 0, 0.0, False, False
        self.verdicts: Dict[str, int] = {}
        self.budget: Dict[str, Any] = {}
        self.space = 0.0
        self.note = ""
        self._step: Optional[Tuple[str, float]] = None  # of preparation, and when it began
        self._began: Optional[float] = None
        self._last = 0.0
        self._width = 0
        self._display: Any = _notebook() if show in (None, True) else None
        self._terminal = self._display is None and (sys.stderr.isatty() if show is None else show)
        self._handle: Any = None
        self.update(force=True)

    def event(self, e: Dict[str, Any]) -> None:
        """Takes in an event of ``tune run --json``."""
        kind = e.get("event")
        if kind == "started":
            self.phase, self._began = "searching", time.monotonic()
            self.budget = e.get("config", {}).get("budget", {})
            self.space = e.get("space_size", 0.0) if e.get("space_exact") else 0.0
        elif kind == "state":
            step = (e.get("progress") or {}).get("preparing")
            self._step = (step["step"], time.monotonic() - step["since_ns"] / 1e9) if step else None
        elif kind == "evaluated":
            self.evaluated += 1
            self.verdicts[e["verdict"]] = self.verdicts.get(e["verdict"], 0) + 1
            if e["verdict"] == "correct" and e.get("fitness"):
                self.best = max(self.best, 1 / e["fitness"])
        elif kind == "searched":
            self.phase = "finals"
        elif kind in ("paused", "continued"):
            self.note = f"paused: {e.get('reason')}" if kind == "paused" else ""
        elif kind in ("finished", "stopped"):
            # The last event of a campaign that was interrupted is "finished", too.
            self.phase = kind if self.phase != "stopped" else "stopped"
            self.note = ""
            best = e.get("best") or {}
            if best.get("speedup"):
                self.best, self.significant = best["speedup"], bool(best.get("significant")) and not best.get("unproven")
                tested = best.get("measured") == "finals" and bool(e.get("sanitized"))  # not of a recorded table
                self.beaten = tested and not (best.get("significant") and self.best > 1)
        self.update(force=kind != "evaluated")

    def interrupted(self, signals: int) -> None:
        self.note = "ending after what is in flight; again: at once" if signals == 1 else "ending"
        self.update(force=True)

    @property
    def elapsed(self) -> float:
        """Seconds of the search."""
        return time.monotonic() - self._began if self._began is not None else 0.0

    @property
    def fraction(self) -> float:
        """How much of the budget that ends first is used, 0 to 1."""
        if self.phase in ("finals", "finished"):
            return 1.0
        parts = [0.0]
        if self.budget.get("time"):
            parts.append(self.elapsed / (self.budget["time"] / 1e9))
        if self.budget.get("evaluations"):
            parts.append(self.evaluated / self.budget["evaluations"])
        if self.space:
            parts.append(self.evaluated / self.space)
        return min(1.0, max(parts))

    def text(self) -> str:
        """One line."""
        parts = [f"{self.kernel}: {self.note or self.phase}"]
        if self._began is None and self._step is not None:
            parts.append(f"{self._step[0]}: {time.monotonic() - self._step[1]:.0f} s so far")
        if self._began is not None:
            parts.append(f"{self.evaluated} evaluated in {self.elapsed:.0f} s")
        failed = {k: n for k, n in self.verdicts.items() if k != "correct"}
        if failed:
            parts.append(", ".join(f"{n} {k}" for k, n in sorted(failed.items())))
        if self.beaten:
            of = f" of {self.space:.0f}" if self.space else ""
            parts.append(f"nothing faster was found: {self.evaluated}{of} genomes tried; use the baseline")
        elif self.best:
            # Of many readings of the search the best are also the luckiest: only finals prove it.
            mark = "" if self.significant else "~ "
            parts.append(f"best {mark}{self.best:.3g}x")
        return " | ".join(parts)

    def update(self, force: bool = False) -> None:
        """Shows the state of now, at most four times a second."""
        now = time.monotonic()
        if not force and now - self._last < 0.25:
            return
        self._last = now
        if self._display is not None:
            from ._display import bar
            shown = self._display.HTML(bar(self.text(), self.fraction))
            if self._handle is None:
                self._handle = self._display.display(shown, display_id=True)
            elif self._handle:
                self._handle.update(shown)
        elif self._terminal:
            try:
                columns = os.get_terminal_size(sys.stderr.fileno()).columns
            except (OSError, ValueError):
                columns = 80
            full = round(self.fraction * 20)
            line = f"[{'#' * full}{'.' * (20 - full)}] {self.text()}"[: columns - 1]
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def close(self) -> None:
        self.update(force=True)
        if self._terminal and self._width:
            sys.stderr.write("\n")


def _notebook() -> Any:
    """IPython's display module where this runs in a notebook, else None."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display
    return display
