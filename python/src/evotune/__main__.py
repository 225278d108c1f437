"""``python -m evotune`` is ``tune``."""

from __future__ import annotations

import os
import sys

from ._tune import Error, program


def main() -> None:
    try:
        path = program()
    except Error as err:
        print(f"evotune: {err}", file=sys.stderr)
        raise SystemExit(2)
    env = {k: v for k, v in os.environ.items() if k != "EVOTUNE_TUNE"}
    os.execve(path, [path, *sys.argv[1:]], env)


if __name__ == "__main__":
    main()
