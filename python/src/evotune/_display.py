"""What a notebook shows: tables, bars and the figures of reports."""

from __future__ import annotations

import html
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

_CELL = "padding:2px 10px;text-align:left"


def bar(text: str, fraction: float) -> str:
    """A bar in HTML."""
    return (f'<div style="font-family:monospace"><div style="background:#8884;height:8px;width:100%;max-width:640px;border-radius:4px">'
            f'<div style="background:#2a78d6;height:8px;width:{100 * fraction:.1f}%;border-radius:4px"></div></div>{html.escape(text)}</div>')


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k}={cell(v)}" for k, v in value.items())
    return "" if value is None else str(value)


def table(rows: Iterable[Sequence[Any]], head: Optional[Sequence[str]] = None) -> str:
    """A table in HTML."""
    out: List[str] = ["<table>"]
    if head:
        out.append("<tr>" + "".join(f'<th style="{_CELL}">{html.escape(h)}</th>' for h in head) + "</tr>")
    for row in rows:
        out.append("<tr>" + "".join(f'<td style="{_CELL}">{html.escape(cell(c))}</td>' for c in row) + "</tr>")
    return "".join(out) + "</table>"


class Table(List[Dict[str, Any]]):
    """Rows, for a Python without pandas: a list of dictionaries that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        head = list(dict.fromkeys(k for row in self for k in row))
        return table(([row.get(h) for h in head] for row in self), head)


class Figures(Dict[str, str]):
    """Figures by their names, each the text of an SVG file. A notebook shows them all."""

    def _repr_html_(self) -> str:
        # As pictures: styles of one figure must not meet those of another.
        import base64
        return "".join(f'<p><img alt="{html.escape(name)}" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"></p>' for name, svg in self.items())

    def __repr__(self) -> str:
        return f"evotune figures: {', '.join(self)}"

    def save(self, folder: Any) -> None:
        """Writes each as NAME.svg into a folder."""
        from pathlib import Path
        to = Path(folder)
        to.mkdir(parents=True, exist_ok=True)
        for name, svg in self.items():
            (to / f"{name}.svg").write_text(svg, encoding="utf-8")


def pairs(values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    return table(values.items())
