"""Runs the program ``tune``, which does all the work."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

# The statuses with which tune ends: docs/events.md.
NO_CANDIDATE, FINDINGS, BUSY, INTERRUPTED = 3, 4, 6, 130


class Error(Exception):
    """What was wrong, in one line that begins with the file and line of Python that it is about."""

    def __init__(self, message: str, at: Optional[str] = None):
        super().__init__(f"{at or caller()}: {one_line(message)}")

    def _render_traceback_(self) -> List[str]:
        """What a notebook shows instead of a traceback."""
        return [f"evotune.Error: {self}"]


def one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def caller() -> str:
    """The file and line of the innermost frame that is not of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _PACKAGE:
        frame = frame.f_back
    return place(frame.f_code.co_filename, frame.f_lineno)


def read(path: str, what: str, latin1: bool = False) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; old sources in C may be in Latin-1."""
    try:
        with open(path, "rb") as f:
            text = f.read()
    except OSError as err:
        raise Error(f"{what}: {err.strerror}") from None
    try:
        return text.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        if latin1 and b"\0" not in text:
            return text.decode("latin-1").replace("\r\n", "\n")
        raise Error(f"{what}: it is not text in UTF-8: save it as UTF-8") from None


def place(file: str, line: int) -> str:
    """A file and a line as messages show them; a notebook's cell by its number."""
    cell = sys.modules.get("IPython")
    if cell is not None and not os.path.exists(file):
        shell = cell.get_ipython()
        name = shell and shell.compile.format_code_name(file) if hasattr(getattr(shell, "compile", None), "format_code_name") else None
        if name:
            return f"{' '.join(name)}:{line}"
    try:
        short = os.path.relpath(file)
    except ValueError:
        short = file
    return f"{short if not short.startswith('..') else file}:{line}"


def program() -> str:
    """The path of tune: in the wheel, else ``$EVOTUNE_TUNE``, else on the ``PATH``."""
    own = os.path.join(_PACKAGE, "bin", "tune")
    if os.path.exists(own):
        return own
    named = os.environ.get("EVOTUNE_TUNE")
    if named:
        found = shutil.which(named)
        if not found:
            raise Error(f"EVOTUNE_TUNE is {named!r}, which is not a program: correct or unset it")
        return found
    found = shutil.which("tune")
    if not found:
        raise Error("there is no program tune: install the wheel for this platform, or name the program in EVOTUNE_TUNE")
    return found


def environment(extra: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The environment of tune. What this package says itself is not taken from outside."""
    env = {k: v for k, v in os.environ.items() if k not in ("EVOTUNE_TUNE", "EVOTUNE_SERVER", "EVOTUNE_STORE", "EVOTUNE_JSON")}
    env.update(extra or {})
    return env


def said(errors: str) -> str:
    """What a failed tune said, without its own name."""
    lines = [line[len("tune: "):] if line.startswith("tune: ") else line for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else "tune failed without a message"


def run(args: Sequence[str], *, env: Optional[Mapping[str, str]] = None, ok: Sequence[int] = (0,), at: Optional[str] = None) -> "subprocess.CompletedProcess[str]":
    """Runs tune to its end. A status that is not in ok is an :class:`Error` with what tune said."""
    done = subprocess.run([program(), *args], env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode not in ok:
        raise Error(said(done.stderr), at)
    return done


def ask(args: Sequence[str], *, env: Optional[Mapping[str, str]] = None, ok: Sequence[int] = (0,), at: Optional[str] = None) -> Any:
    """Runs tune with ``--json`` and gives what it prints."""
    return json.loads(run([*args, "--json"], env=env, ok=ok, at=at).stdout)


_versions: Dict[Tuple[str, int], str] = {}


def version() -> str:
    """Which tune this is."""
    path = program()
    key = path, os.stat(path).st_mtime_ns
    if key not in _versions:
        _versions[key] = json.dumps(ask(["version"]), sort_keys=True)
    return _versions[key]


class Stream:
    """A tune that prints events, one JSON object in a line."""

    def __init__(self, args: Sequence[str], env: Optional[Mapping[str, str]] = None):
        # A session of its own: a terminal's Ctrl-C goes to this process, which passes it on once.
        self._process = subprocess.Popen(
            [program(), *args, "--json"], env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self._lines: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self._errors: List[bytes] = []
        self._readers = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._read_errors, daemon=True)]
        for thread in self._readers:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)

    def follow(self, event: Callable[[Dict[str, Any]], None], interrupted: Callable[[int], None], idle: Callable[[], None]) -> int:
        """Tells of every event until tune ends, and gives its status. Ctrl-C is passed on, and told with its number; idle is called now and then."""
        signals = 0

        def interrupt(*_: object) -> None:
            nonlocal signals
            signals += 1
            # The first ends after what is in flight, the second at once.
            self._process.send_signal(signal.SIGINT if signals < 3 else signal.SIGKILL)
            interrupted(signals)

        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, interrupt) if main else None
        try:
            while True:
                try:
                    line = self._lines.get(timeout=0.25)
                except queue.Empty:
                    idle()
                    continue
                if line is None:
                    break
                try:
                    told = json.loads(line)
                except ValueError:
                    continue  # a line that was cut short by a kill
                event(told)
        except BaseException:
            self._process.send_signal(signal.SIGINT)
            raise
        finally:
            status = self._process.wait()
            for thread in self._readers:
                thread.join()
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            if main:
                signal.signal(signal.SIGINT, before)
        return status

    @property
    def said(self) -> str:
        return said(b"".join(self._errors).decode(errors="replace"))


def cache() -> Path:
    """The folder that this package keeps stores, kernels and libraries in."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "evotune"
    path.mkdir(parents=True, exist_ok=True)
    return path
