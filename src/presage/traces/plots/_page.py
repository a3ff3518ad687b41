"""All figures on one page, as PNG, SVG or PDF."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from presage.traces.plots import FIGURES, _panels, _style, _words
from presage.traces.statistics import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.traces.trace import Trace

_COLUMNS = 6  # one, two or three panels stand side by side
_HEADER_IN, _NARROW_IN = 0.62, 2.7
_WIDE_IN = {"utilisation": 2.1, "queue": 2.1, "gpus": 3.0, "gantt": 6.0}
_PAGE_WIDTHS_IN = {1: 8.5, 2: 10.5, 3: 14.0}
_TITLE_CHARS = 70
_DPI = 120
# Whatever says when or with which version a file was made would make equal pictures differ.
_METADATA = {
    "png": {"Software": "Presage"},
    "svg": {"Date": None, "Creator": "Presage"},
    "pdf": {"CreationDate": None, "Creator": "Presage", "Producer": "Presage"},
}


def renderer(file_type: str) -> Callable[[Trace, Sequence[str], str | None], bytes]:
    """Return the function that draws a trace's figures on one page of this type."""

    def render(trace: Trace, names: Sequence[str], title: str | None) -> bytes:
        with _style.house_style(salt="page"):
            figure = _page(trace, names, title)
            _style.settle(figure)
            written = io.BytesIO()
            figure.savefig(written, format=file_type, metadata=_METADATA[file_type])
        return written.getvalue()

    return render


def _page(trace: Trace, names: Sequence[str], title: str | None) -> Figure:
    summary = summarise(trace)
    wide = {name for name in names if _panels.is_wide(name, trace, summary)}
    rows = _rows(names, wide)
    heights = [_HEADER_IN, *(_WIDE_IN[row[0]] if row[0] in wide else _NARROW_IN for row in rows)]
    size = (_PAGE_WIDTHS_IN[max(len(row) for row in rows)], sum(heights) + 0.2)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=size, dpi=_DPI, facecolor=_style.PAPER, layout=layout)
    grid = figure.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
    header = figure.add_subplot(grid[0, :])
    header.set_axis_off()
    shown = _style.drawable(title or summary.name or "Trace", _TITLE_CHARS)
    header.text(0, 0.62, shown, fontsize=16, fontweight="bold", va="center")
    header.text(0, 0.08, _words.headline(summary), fontsize=9.5, color=_style.MUTED, va="center")
    for number, row in enumerate(rows, start=1):
        width = _COLUMNS // len(row)
        for place, name in enumerate(row):
            cell = grid[number, place * width : (place + 1) * width]
            _panels.FIGURES[name](_panels.Panel(figure, cell, FIGURES[name]), trace, summary)
    return figure


def _rows(names: Sequence[str], wide: set[str]) -> list[list[str]]:
    """Return the figures in rows: a wide one alone, others up to three together and evenly spread."""
    rows: list[list[str]] = []
    together: list[str] = []
    for name in names:
        if name in wide:
            rows += [*_evenly(together), [name]]
            together = []
        else:
            together.append(name)
    return rows + _evenly(together)


def _evenly(names: list[str]) -> list[list[str]]:
    number = -(-len(names) // 3)
    rows, rest = [], names
    for left in range(number, 0, -1):
        taken = -(-len(rest) // left)
        rows.append(rest[:taken])
        rest = rest[taken:]
    return rows
