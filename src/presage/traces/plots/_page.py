"""All figures on one page, as PNG, SVG or PDF."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from presage.traces.plots import _panels, _style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.plots._sheet import Plot, Sheet

_COLUMNS = 6  # one, two or three panels stand side by side
_HEADER_IN, _NARROW_IN = 0.62, 2.7
_PAGE_WIDTHS_IN = {1: 8.5, 2: 10.5, 3: 14.0}
_TITLE_CHARS = 70
_DPI = 120
# Whatever says when or with which version a file was made would make equal pictures differ.
_METADATA = {
    "png": {"Software": "Presage"},
    "svg": {"Date": None, "Creator": "Presage"},
    "pdf": {"CreationDate": None, "Creator": "Presage", "Producer": "Presage"},
}


def render(sheet: Sheet, file_type: str) -> bytes:
    """Return the figures on one page of this type."""
    with _style.house_style(salt="page"):
        figure = _page(sheet)
        _style.settle(figure)
        written = io.BytesIO()
        figure.savefig(written, format=file_type, metadata=_METADATA[file_type])
    return written.getvalue()


def _page(sheet: Sheet) -> Figure:
    rows = _rows(sheet.plots)
    heights = [_HEADER_IN, *(_NARROW_IN if row[0].height_in is None else row[0].height_in for row in rows)]
    size = (_PAGE_WIDTHS_IN[max(len(row) for row in rows)], sum(heights) + 0.2)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=size, dpi=_DPI, facecolor=_style.PAPER, layout=layout)
    grid = figure.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
    header = figure.add_subplot(grid[0, :])
    header.set_axis_off()
    header.text(0, 0.62, _style.drawable(sheet.title, _TITLE_CHARS), fontsize=16, fontweight="bold", va="center")
    header.text(0, 0.08, sheet.headline, fontsize=9.5, color=_style.MUTED, va="center")
    for number, row in enumerate(rows, start=1):
        width = _COLUMNS // len(row)
        for place, plot in enumerate(row):
            cell = grid[number, place * width : (place + 1) * width]
            plot.draw(_panels.Panel(figure, cell, plot.title))
    return figure


def _rows(plots: Sequence[Plot]) -> list[list[Plot]]:
    """Return the figures in rows: a wide one alone, others up to three together and evenly spread."""
    rows: list[list[Plot]] = []
    together: list[Plot] = []
    for plot in plots:
        if plot.height_in is None:
            together.append(plot)
        else:
            rows += [*_evenly(together), [plot]]
            together = []
    return rows + _evenly(together)


def _evenly(plots: list[Plot]) -> list[list[Plot]]:
    number = -(-len(plots) // 3)
    rows, rest = [], plots
    for left in range(number, 0, -1):
        taken = -(-len(rest) // left)
        rows.append(rest[:taken])
        rest = rest[taken:]
    return rows
