"""Parts that the figures of a report are drawn of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle

from presage.synthesizers.fidelity.marginals import LEVELS, MOST_LABELS
from presage.traces.plots import _style

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from presage.synthesizers.fidelity.correlations import Matrix
    from presage.synthesizers.fidelity.marginals import LabelColumn, NumberColumn
    from presage.synthesizers.fidelity.replay import Outcome
    from presage.traces.plots._panels import Panel

COLUMNS = 4
"""Small figures side by side."""
NAMES = {
    "gap_s": "gap between jobs", "run_s": "run time", "cpus": "processors", "nodes_req": "nodes", "tasks": "tasks",
    "gpus_req": "GPUs", "mem_req_bytes": "memory (bytes)", "limit_s": "limit", "completed": "completed",
    "gpu_type_req": "type of GPU", "qos": "quality of service",
}  # fmt: skip
REAL, SYNTHETIC, LATER = "the log", "synthetic", "the log's later jobs"
COLOURS = {REAL: _style.INK, SYNTHETIC: _style.BLUE, LATER: _style.GREY}
DASHES = (0, (4, 2))
_LABEL_CHARS = 12
_DURATIONS = {"gap_s", "run_s", "limit_s"}


def small_grid(panel: Panel, count: int) -> list[Axes]:
    """Return axes for so many small figures, in rows; those left over stay empty."""
    axes = panel.grid(-(-count // COLUMNS), COLUMNS)
    for each in axes[count:]:
        each.set_axis_off()
    return axes


def small_height_in(count: int) -> float:
    """Return the height of so many small figures."""
    return 2.3 * -(-max(count, 1) // COLUMNS) + 0.2


def draw_distribution(axes: Axes, column: NumberColumn) -> None:
    """Draw which share of the jobs has at most so much."""
    values = {REAL: np.array(column.real), SYNTHETIC: np.array(column.synthetic)}
    positive = np.concatenate([each[each > 0] for each in values.values()])
    axes.set_title(f"{name_of(column.name)}, KS {column.ks:.2f}", fontsize=9)
    axes.set_ylim(0, 1.03)
    _style.share_axis(axes.yaxis, "")
    if not len(positive):
        axes.set_xticks([])
        return
    low, high = float(positive.min()), float(positive.max())
    duration = column.name in _DURATIONS
    if duration:
        low, high = _style.duration_bounds(max(low, 1.0), max(high, 2.0))
    for name, each in values.items():
        if len(each):
            axes.step(np.append(each.clip(low), high), [*LEVELS, 1.0], where="post", label=name, **line_of(name))
    if duration:
        _style.duration_axis(axes, low, high, "")
        axes.tick_params(axis="x", labelsize=7)
    else:
        _style.doubling_axis(axes, low, high, "")


def draw_shares(axes: Axes, column: LabelColumn) -> None:
    """Draw the shares of labels, both traces side by side."""
    # All the others together would dwarf the few that one can tell apart.
    shown = slice(MOST_LABELS) if column.by_rank else slice(None)
    draw_groups(axes, {REAL: [*column.real[shown]], SYNTHETIC: [*column.synthetic[shown]]})
    how = "s by rank" if column.by_rank else ""
    axes.set_title(f"{name_of(column.name)}{how}, TV {column.tv:.2f}", fontsize=9)
    texts = [_style.drawable(label, _LABEL_CHARS) for label in column.labels[shown]]
    turned: dict[str, Any] = {} if column.by_rank else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(texts)), texts, **turned)
    axes.tick_params(axis="x", labelsize=7, length=0)
    _style.share_axis(axes.yaxis, "")


def draw_heat_map(axes: Axes, matrix: Matrix, names: list[str], title: str, *, named: bool) -> None:
    """Draw a matrix of correlations with its numbers."""
    count = len(names)
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            colour = _style.BLUE if value > 0 else _style.ORANGE
            axes.add_patch(Rectangle((column, row), 1, 1, color=colour, alpha=min(1.0, abs(value)), linewidth=0))
            text = "" if row == column else f"{value:.2f}".replace("0.", ".").replace("-", "−")
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5)
    axes.set(xlim=(0, count), ylim=(count, 0), aspect="equal")
    places = np.arange(count) + 0.5
    axes.set_xticks(places, names, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, names if named else [""] * count)
    axes.tick_params(length=0, labelsize=7.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=9, loc="center")


def draw_band(axes: Axes, place: int, outcome: Outcome) -> None:
    """Draw the windows of the log as a band, and those of the synthetic trace as dots."""
    for low, high, alpha in ((outcome.low, outcome.high, 0.3), (outcome.low_10, outcome.high_90, 0.5)):
        axes.barh(place, max(high - low, 1e-9), 0.5, left=low, color=_style.GREY, alpha=alpha)
    axes.plot(outcome.windows, [place] * len(outcome.windows), "o", color=_style.SKY, markersize=4)
    colour = _style.BLUE if outcome.inside else _style.RED
    axes.plot([outcome.synthetic], [place], "D", color=colour, markersize=7)


def metric_axis(axes: Axes, metric: str, outcomes: list[Outcome]) -> None:
    """Make the x axis one of the metric; waits and slowdowns are often a few times too long, so logarithmic."""
    values = np.concatenate([[*each.windows, *each.real_windows] for each in outcomes])
    low, high = float(values.min()), float(values.max())
    if metric == "utilization":
        _style.share_axis(axes.xaxis, "")
    elif low <= 0:
        axes.set_xlim(left=0)
    elif metric == "mean_wait_s":
        _style.duration_axis(axes, *_style.duration_bounds(low, high), "")
    else:
        _style.doubling_axis(axes, low, high, "")


def draw_groups(axes: Axes, sides: dict[str, list[float]], text: Callable[[float], str] | None = None) -> None:
    """Draw bars of several traces side by side."""
    thick = 0.8 / len(sides)
    for number, (name, values) in enumerate(sides.items()):
        places = np.arange(len(values)) + (number - (len(sides) - 1) / 2) * thick
        drawn = axes.bar(places, np.nan_to_num(values), thick * 0.92, color=COLOURS[name], label=name)
        if text is not None:
            axes.bar_label(drawn, [text(value) for value in values], fontsize=7.5, color=_style.MUTED, padding=2)
    axes.tick_params(axis="x", length=0)


def line_of(name: str) -> dict[str, Any]:
    """Return how the line of a trace is drawn."""
    return {"color": COLOURS[name], "linestyle": DASHES if name == REAL else "-", "linewidth": 1.6}


def name_of(column: str) -> str:
    """Return what people call a column."""
    return NAMES.get(column, column)
