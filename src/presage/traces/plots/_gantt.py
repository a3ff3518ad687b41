"""The Gantt chart: which job had which processors when.

Logs on pooled processors do not say which processors a job had. The chart gives each job the lowest numbers that
are free when it starts, so a job may lie in several pieces; areas and times are true, numbers are not.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from presage.traces import schema, statistics
from presage.traces.plots import _style, _words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from presage.traces.plots._panels import Panel
    from presage.traces.statistics import Summary
    from presage.traces.trace import Trace

MAX_JOBS = 4_000
MAX_PROCESSORS = 1_000_000_000  # a job that claims more is damaged, and would hide all others
_USER_COLOURS = (_style.BLUE, _style.ORANGE, _style.GREEN, _style.RED, _style.SKY, _style.PINK)
_LABEL_CHARS = 14

Piece = tuple[int, int, int]
"""Position of the job, first processor, processor behind the last."""


def gantt(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the jobs over time and processors, coloured by the users with the most processor time."""
    shown = _shown_jobs(trace)
    if not len(shown):
        return panel.say("This log has no jobs with a start, an end and a size")
    pieces = place_lowest(shown["start_ms"].to_list(), shown["end_ms"].to_list(), shown["size"].to_list())
    axes = panel.axes()
    times_ms = np.concatenate([shown["start_ms"].to_numpy(), shown["end_ms"].to_numpy()])
    bounds = np.array([times_ms.min(), times_ms.max()])
    places = _style.time_axis(
        axes, bounds, dated=trace.manifest.absolute_time, zone=statistics.time_zone_of(trace)
    )
    scale = (places[1] - places[0]) / max(bounds[1] - bounds[0], 1)
    colours, legend = _colours(shown)
    _draw_pieces(axes, shown, pieces, colours, offset=places[0], origin_ms=int(bounds[0]), scale=float(scale))
    top = max(last for _, _, last in pieces)
    axes.set_ylim(0, max(top, summary.processors or 0))
    axes.grid(visible=False)
    _style.count_axis(axes.yaxis, "processors", whole=True)
    if legend:
        axes.legend(
            handles=legend, loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=len(legend), borderaxespad=0
        )
    if len(shown) < summary.jobs:
        return f"The first {len(shown):,} of {summary.jobs:,} jobs to start."
    return f"All {len(shown):,} jobs."


def place_lowest(starts: list[int], ends: list[int], sizes: list[int]) -> list[Piece]:
    """Return where each job lies if it takes the lowest processors free at its start; jobs in order of start."""
    free: list[tuple[int, int]] = [(0, 1 << 62)]
    running: list[tuple[int, list[tuple[int, int]]]] = []
    pieces: list[Piece] = []
    for position, (start, end, size) in enumerate(zip(starts, ends, sizes, strict=True)):
        while running and running[0][0] <= start:
            free = _merged(free + heapq.heappop(running)[1])
        taken: list[tuple[int, int]] = []
        left = size
        while left > 0:
            low, high = free.pop(0)
            width = min(left, high - low)
            taken.append((low, low + width))
            if low + width < high:
                free.insert(0, (low + width, high))
            left -= width
        pieces += [(position, low, high) for low, high in taken]
        heapq.heappush(running, (end, taken))
    return pieces


def _merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged


def _shown_jobs(trace: Trace) -> pl.DataFrame:
    whole = schema.size().ceil().cast(pl.Int64, strict=False)
    jobs = trace.jobs.select("start_ms", "end_ms", "user", size=whole)
    ran = (pl.col("end_ms") > pl.col("start_ms")) & pl.col("size").is_between(1, MAX_PROCESSORS)
    return jobs.filter(ran).sort("start_ms", maintain_order=True).head(MAX_JOBS)


def _colours(jobs: pl.DataFrame) -> tuple[list[str], list[Patch]]:
    """Return one colour per job and the legend; without users, neighbours take turns."""
    if jobs["user"].null_count() == len(jobs):
        return [(_style.BLUE, _style.SKY)[position % 2] for position in range(len(jobs))], []
    work = (pl.col("end_ms") - pl.col("start_ms")) * pl.col("size")
    by_work = jobs.group_by("user").agg(work=work.sum()).drop_nulls("user").sort("work", "user", descending=True)
    chosen = dict(zip(by_work["user"].to_list(), _USER_COLOURS, strict=False))
    legend = [Patch(color=colour, label=_style.drawable(user, _LABEL_CHARS)) for user, colour in chosen.items()]
    others = len(by_work) - len(chosen)
    if others > 0:
        legend.append(Patch(color=_style.GREY, label=f"{_words.count(others)} others"))
    return [chosen.get(user, _style.GREY) for user in jobs["user"].to_list()], legend


def _draw_pieces(
    axes: Axes,
    jobs: pl.DataFrame,
    pieces: list[Piece],
    colours: list[str],
    *,
    offset: float,
    origin_ms: int,
    scale: float,
) -> None:
    starts = offset + (jobs["start_ms"].to_numpy() - origin_ms) * scale
    ends = offset + (jobs["end_ms"].to_numpy() - origin_ms) * scale
    boxes = [
        [(starts[job], low), (ends[job], low), (ends[job], high), (starts[job], high)] for job, low, high in pieces
    ]
    fills = [colours[job] for job, _, _ in pieces]
    axes.add_collection(PolyCollection(boxes, facecolors=fills, edgecolors=_style.PAPER, linewidths=0.3))
