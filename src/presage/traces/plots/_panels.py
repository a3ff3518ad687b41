"""The figures, one function each: it draws into a panel and returns a sentence on what can be seen there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.traces import schema, statistics
from presage.traces.plots import _style, _words
from presage.traces.plots._gantt import gantt

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec
    from numpy.typing import NDArray

    from presage.traces.statistics import Summary, TimeSeries
    from presage.traces.trace import Trace

    Draw = Callable[["Panel", Trace, Summary], str]

CDF_POINTS = 300
TOP_USERS = 10
_MOST_DOUBLINGS = 7
_SHOWN_SHARE = 0.999
_LABEL_CHARS = 14
_WEEKDAYS = "MTWTFSS"
_OUTCOME_COLOURS = {
    "completed": _style.GREEN, "failed": _style.RED, "cancelled": _style.ORANGE, "timeout": _style.PINK,
    "out_of_memory": _style.PINK, "node_failure": _style.RED, "preempted": _style.SKY, "running": _style.BLUE,
    "pending": _style.SKY,
}  # fmt: skip


class Panel:
    """The place of one figure on a page."""

    def __init__(self, figure: Figure, cell: SubplotSpec, title: str = "") -> None:
        self._figure = figure
        self._cell = cell
        self._title = title

    def axes(self) -> Axes:
        """Return the panel as one pair of axes."""
        return self._titled(self._figure.add_subplot(self._cell))

    def two_axes(self) -> tuple[Axes, Axes]:
        """Return the panel cut into axes on two thirds of its width and on the last third."""
        grid = self._cell.subgridspec(1, 2, width_ratios=[2, 1])
        return self._titled(self._figure.add_subplot(grid[0, 0])), self._figure.add_subplot(grid[0, 1])

    def grid(self, rows: int, columns: int) -> list[Axes]:
        """Return the panel cut into axes of one size, row by row."""
        grid = self._cell.subgridspec(rows, columns)
        axes = [
            self._figure.add_subplot(grid[place // columns, place % columns]) for place in range(rows * columns)
        ]
        self._titled(axes[0])
        return axes

    def say(self, words: str) -> str:
        """Leave the panel empty but for these words, and return them as a sentence."""
        axes = self.axes()
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.patch.set(facecolor=_style.FAINT, alpha=0.35, visible=True)
        axes.text(0.5, 0.5, words, ha="center", va="center", color=_style.MUTED, transform=axes.transAxes)
        return words + "."

    def _titled(self, axes: Axes) -> Axes:
        if self._title:
            axes.set_title(self._title)
        return axes


def utilisation(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the processors in use over time."""
    busy = statistics.utilisation_over_time(trace, until_ms=_view_end_ms(trace))
    if not len(busy.mean):
        return panel.say(_why_no_level(trace, schema.size(), "processor counts"))
    _level(panel.axes(), trace, busy, "processors in use", _style.BLUE)
    if not busy.capacity:
        return f"On average {_words.brief(_mean(busy))} processors were in use."
    sentence = f"On average {_words.percent(_mean(busy) / busy.capacity)} of the processors were in use."
    peak = float(busy.mean.max()) / busy.capacity
    if peak > 1:
        sentence += (
            f" At the peak the log has {_words.percent(peak)} in use, more than the machine is said to have."
        )
    return sentence


def queue(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the number of waiting jobs over time."""
    waiting = statistics.queue_length_over_time(trace, until_ms=_view_end_ms(trace))
    if not len(waiting.mean):
        known = trace.jobs["start_ms"].count() > 0
        return panel.say("No job of this log had to wait" if known else "This log has no start times")
    _level(panel.axes(), trace, waiting, "waiting jobs", _style.ORANGE)
    return f"On average {_words.brief(_mean(waiting))} jobs were waiting."


def arrivals(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the daily and the weekly rhythm of submits."""
    hours, days = statistics.arrivals_by_hour(trace), statistics.arrivals_by_weekday(trace)
    total = sum(hours.counts)
    if not total:
        return panel.say("This log has no submit times")
    by_hour, by_day = panel.two_axes()
    by_hour.bar(range(24), np.divide(hours.counts, total), width=0.8, color=_style.BLUE)
    by_hour.set_xticks(range(0, 24, 6), [f"{hour}:00" for hour in range(0, 24, 6)])
    by_hour.set_xticks(range(24), minor=True)
    weekend = _style.SKY if days.meaningful else _style.BLUE
    by_day.bar(range(7), np.divide(days.counts, total), width=0.75, color=[_style.BLUE] * 5 + [weekend] * 2)
    for axes in (by_hour, by_day):
        axes.margins(x=0.02)
        _style.share_axis(axes.yaxis, "share of jobs" if axes is by_hour else "")
    if not hours.meaningful:
        by_hour.set_xlabel("hour from the log's own zero")
        by_day.set_xticks(range(7), [str(day + 1) for day in range(7)])
        by_day.set_xlabel("day from there")
        return "This log does not say when its time begins: hours and days count from its own zero."
    by_hour.set_xlabel(f"hour of day ({hours.time_zone})")
    by_day.set_xticks(range(7), list(_WEEKDAYS))
    by_day.set_xlabel("weekday")
    peak = int(np.argmax(hours.counts))
    per_day = summary.arrivals_per_day
    rate = f"{_words.brief(per_day)} jobs arrive per day, most" if per_day is not None else "Most jobs arrive"
    return f"{rate} between {peak}:00 and {peak + 1}:00 ({hours.time_zone})."


def sizes(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw how many jobs, and how much of the work, have at most so many processors."""
    jobs = trace.jobs.select(size=schema.size(), work=pl.col("run_s") * schema.size())
    size = _numbers(jobs["size"])
    usable = np.isfinite(size) & (size > 0)
    if not usable.any():
        return panel.say("This log has no processor counts")
    axes = panel.axes()
    _cdf(axes, size[usable], "jobs", _style.BLUE)
    _cdf(axes, size[usable], "processor time", _style.ORANGE, weights=_numbers(jobs["work"])[usable])
    _style.doubling_axis(axes, size[usable].min(), size[usable].max(), "processors per job")
    _finish_cdf(axes, "share at or below")
    alone = _words.percent(1 - (summary.multi_cpu_share or 0.0))
    mean, most = _words.brief(summary.mean_size or 0.0), _words.count(summary.max_size or 0.0)
    return f"{alone} of the jobs have no more than one processor; the mean is {mean}, the largest job has {most}."


def runtimes(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw how many jobs ran, and asked to run, for at most so long."""
    run, limit = _durations(trace, "run_s"), _durations(trace, "limit_s")
    if not len(run) and not len(limit):
        return panel.say("This log has no run times")
    both = np.concatenate([run, limit])
    low, high = _style.duration_bounds(_shortest_s(both), both.max())
    axes = panel.axes()
    _cdf(axes, run.clip(low), "run time", _style.BLUE)
    _cdf(axes, limit.clip(low), "requested time", _style.ORANGE)
    _style.duration_axis(axes, low, high, "duration")
    _finish_cdf(axes, "share of jobs at or below")
    parts = []
    if summary.median_run_s is not None:
        parts.append(f"half of the jobs run for at most {_words.duration(summary.median_run_s)}")
    if summary.median_limit_s is not None:
        parts.append(f"half ask for at most {_words.duration(summary.median_limit_s)}")
    return _sentence(parts)


def requests(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw which part of their requested time jobs used."""
    if summary.mean_limit_use is None:
        lacking = "requested times" if trace.jobs["limit_s"].count() == 0 else "run times"
        return panel.say(f"This log has no {lacking}")
    limited = trace.jobs.filter(pl.col("limit_s") > 0)
    used = _numbers(limited["run_s"] / limited["limit_s"])
    axes = panel.axes()
    _cdf(axes, used.clip(0, 1.6), "jobs", _style.BLUE)
    axes.axvline(1.0, color=_style.RED, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.set_xlim(0, 1.5)
    axes.set_ylim(0, 1.02)
    _style.share_axis(axes.xaxis, "run time as a share of the requested time")
    _style.share_axis(axes.yaxis, "share of jobs at or below")
    overrun = _words.percent(summary.overrun_share or 0.0)
    axes.text(1.03, 0.06, f"{overrun} ran\nbeyond it", color=_style.RED, fontsize=8, va="bottom")
    return (
        f"Jobs use {_words.percent(summary.mean_limit_use)} of their requested time on average; {overrun} overran."
    )


def waits(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the distribution of waits."""
    wait = _durations(trace, "wait_s")
    if not len(wait):
        return panel.say("This log has no waits")
    low, high = _style.duration_bounds(_shortest_s(wait), wait.max())
    edges = np.geomspace(low, high, 37)
    counts, _ = np.histogram(wait, edges)
    axes = panel.axes()
    axes.stairs(counts / len(wait), edges, fill=True, color=_style.BLUE)
    at_once = float(np.mean(wait < low))
    leftmost = low
    if at_once:
        leftmost = low * (low / high) ** 0.09
        bar = [leftmost, low * (leftmost / low) ** 0.15]
        axes.stairs([at_once], bar, fill=True, color=_style.GREY, label=f"under {_words.duration(low)}")
    median, ninetieth = summary.median_wait_s or 0.0, summary.p90_wait_s or 0.0
    for value, name, line in ((median, "median", "-"), (ninetieth, "90th percentile", "--")):
        label = f"{name} {_words.duration(value)}"
        axes.axvline(max(value, leftmost), color=_style.INK, linewidth=1.1, linestyle=line, label=label)
    _style.duration_axis(axes, low, high, "wait")
    axes.set_xlim(left=min(leftmost, axes.get_xlim()[0]))
    _style.share_axis(axes.yaxis)
    axes.set_ylim(0, min(1.02, 1.3 * max(at_once, counts.max() / len(wait))))
    axes.legend(loc="upper right")
    mean = _words.duration(summary.mean_wait_s or 0.0)
    return (
        f"Half of the jobs wait for at most {_words.duration(median)}, nine in ten for at most "
        f"{_words.duration(ninetieth)}; the mean is {mean}."
    )


def users(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the most active users' shares of jobs and of processor time."""
    shares = statistics.user_shares(trace, TOP_USERS)
    if not len(shares):
        return panel.say("This log has no users")
    axes = panel.axes()
    places = np.arange(len(shares))
    has_work = shares["work_share"].null_count() == 0
    thick = 0.38 if has_work else 0.7
    axes.barh(places - thick / 2 * has_work, shares["job_share"], thick, color=_style.BLUE, label="jobs")
    if has_work:
        axes.barh(places + thick / 2, shares["work_share"], thick, color=_style.ORANGE, label="processor time")
    axes.set_yticks(places, [_style.drawable(user, _LABEL_CHARS) for user in shares["user"]])
    _across(axes, len(shares))
    _style.share_axis(axes.xaxis, "share of the whole log")
    axes.set_ylabel("user")
    axes.legend(loc="best")
    several = len(shares) > 1
    top = _words.percent(float(shares["job_share"].sum()))
    return (
        f"The {len(shares)} most active users submit {top} of the jobs." if several else "All jobs are one user's."
    )


def outcomes(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw how many jobs ended in which way."""
    if not set(summary.outcomes) - {"unknown"}:
        return panel.say("This log does not say how jobs ended")
    axes = panel.axes()
    names, numbers = list(summary.outcomes), np.array(list(summary.outcomes.values()))
    axes.barh(range(len(names)), numbers, 0.62, color=[_OUTCOME_COLOURS.get(name, _style.GREY) for name in names])
    for place, number in enumerate(numbers):
        text = f" {number:,} ({_words.percent(number / summary.jobs)})"
        axes.text(number, place, text, va="center", color=_style.MUTED, fontsize=8)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    _across(axes, len(names))
    _style.count_axis(axes.xaxis, "jobs", whole=True)
    axes.set_xlim(0, numbers.max() * 1.38)
    most = names[0].replace("_", " ")
    return f"The most frequent outcome is {most}: {_words.percent(numbers[0] / summary.jobs)} of the jobs."


def gpus(panel: Panel, trace: Trace, summary: Summary) -> str:
    """Draw the GPUs in use over time, and how many GPUs jobs have."""
    if not summary.gpu_jobs:
        return panel.say("This log has no GPU jobs")
    busy = statistics.utilisation_over_time(trace, resource="gpus", until_ms=_view_end_ms(trace))
    if len(busy.mean):
        over_time, per_job = panel.two_axes()
        _level(over_time, trace, busy, "GPUs in use", _style.GREEN)
    else:
        per_job = panel.axes()
    jobs = trace.jobs.select(gpus=schema.gpus(), work=pl.col("run_s") * schema.gpus())
    jobs = jobs.filter(pl.col("gpus").is_finite() & (pl.col("gpus") > 0))
    _gpu_bars(per_job, jobs["gpus"].to_numpy(), _numbers(jobs["work"]))
    mean, most = summary.mean_gpus or 0.0, summary.max_gpus or 0.0
    return (
        f"{summary.gpu_jobs:,} jobs have GPUs, {_words.brief(mean)} on average and {_words.count(most)} at most."
    )


FIGURES: dict[str, Draw] = {
    "utilisation": utilisation, "queue": queue, "arrivals": arrivals, "sizes": sizes, "runtimes": runtimes,
    "requests": requests, "waits": waits, "users": users, "outcomes": outcomes, "gpus": gpus,
    "gantt": gantt,
}  # fmt: skip


def is_wide(name: str, trace: Trace, summary: Summary) -> bool:
    """Return whether a figure takes a page's whole width: those over time do, if they have anything to show."""
    if trace.jobs["start_ms"].count() == 0:
        return False
    sized = summary.mean_size is not None
    filled = {"queue": True, "utilisation": sized, "gantt": sized, "gpus": bool(summary.gpu_jobs)}
    return filled.get(name, False)


def _gpu_bars(axes: Axes, counts: NDArray[np.float64], work: NDArray[np.float64]) -> None:
    """Draw the shares of GPU jobs and GPU time by GPUs per job, in classes that double."""
    doublings = (
        np.where(counts < 1, -1, np.ceil(np.log2(counts.clip(1)))).astype(np.int64).clip(max=_MOST_DOUBLINGS)
    )
    classes = np.arange(-1 if (doublings < 0).any() else 0, doublings.max() + 1)
    of_jobs = np.array([np.mean(doublings == each) for each in classes])
    work = np.nan_to_num(work, nan=0.0, posinf=0.0)
    has_work = work.sum() > 0
    thick = 0.38 if has_work else 0.7
    axes.bar(classes - thick / 2 * has_work, of_jobs, thick, color=_style.GREEN, label="GPU jobs")
    if has_work:
        of_work = np.array([work[doublings == each].sum() for each in classes]) / work.sum()
        axes.bar(classes + thick / 2, of_work, thick, color=_style.PINK, label="GPU time")
    axes.set_xticks(classes, [_doubling_class(each) for each in classes.tolist()])
    _style.share_axis(axes.yaxis, "share")
    axes.set_xlabel("GPUs per job")
    axes.legend(loc="best")


def _doubling_class(doublings: int) -> str:
    if doublings < 0:
        return "<1"
    if doublings < 2:
        return str(2**doublings)
    return f"≤{2**doublings}" if doublings < _MOST_DOUBLINGS else f">{2 ** (doublings - 1)}"


def _level(axes: Axes, trace: Trace, level: TimeSeries, label: str, colour: str) -> None:
    """Draw a time series as a filled staircase with its mean, as a share where the machine's size is known."""
    dated, zone = trace.manifest.absolute_time, statistics.time_zone_of(trace)
    places = _style.time_axis(axes, level.edges_ms, dated=dated, zone=zone)
    unit = level.capacity or 1.0
    values, mean = level.mean / unit, _mean(level) / unit
    axes.stairs(values, places, fill=True, color=colour, alpha=0.25)
    axes.stairs(values, places, color=colour, linewidth=0.9, baseline=None)
    if level.capacity:
        _style.share_axis(axes.yaxis, label)
        # Machines compare best on one scale, but of a sample that hardly uses one nothing would be seen on it.
        axes.set_ylim(0, max(1.0, values.max() * 1.05) if values.max() > 0.25 else values.max() * 1.25)
        if values.max() > 1:
            axes.axhline(1.0, color=_style.RED, linewidth=0.9, label="the whole machine")
    else:
        _style.count_axis(axes.yaxis, label)
        axes.set_ylim(0, values.max() * 1.08)
    shown = _words.percent(mean) if level.capacity else _words.brief(mean)
    axes.axhline(mean, color=_style.INK, linewidth=1.0, linestyle=(0, (4, 2)), label=f"mean {shown}")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.1, ncols=2)


def _view_end_ms(trace: Trace) -> int | None:
    """Return where a picture over time should end, so that a few very long jobs do not squeeze the rest."""
    jobs = trace.jobs
    nearly_last_end = jobs["end_ms"].quantile(_SHOWN_SHARE, "higher")
    known = [moment for moment in (jobs["submit_ms"].max(), nearly_last_end) if isinstance(moment, int | float)]
    return int(max(known)) if known else None


def _mean(level: TimeSeries) -> float:
    return float(np.average(level.mean, weights=np.diff(level.edges_ms)))


def _why_no_level(trace: Trace, amount: pl.Expr, amounts: str) -> str:
    if trace.jobs.select(amount.count()).item() == 0:
        return f"This log has no {amounts}"
    if trace.jobs["start_ms"].count() == 0:
        return "This log has no start times"
    return "No job of this log ran for any time"


def _cdf(
    axes: Axes, values: NDArray[np.float64], label: str, colour: str, weights: NDArray[np.float64] | None = None
) -> None:
    x, share = statistics.cdf(values, weights=weights, points=CDF_POINTS)
    if not len(x):
        return
    line = axes.step(np.insert(x, 0, x[0]), np.insert(share, 0, 0.0), where="post", color=colour, label=label)[0]
    line.set_solid_joinstyle("round")


def _finish_cdf(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 1.02)
    _style.share_axis(axes.yaxis, label)
    axes.legend(loc="best")


def _across(axes: Axes, bars: int) -> None:
    """Let horizontal bars run from the top down, none of them thicker for being few."""
    axes.set_ylim(max(bars, 4) - 0.5, -0.5)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _numbers(values: pl.Series) -> NDArray[np.float64]:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _durations(trace: Trace, column: str) -> NDArray[np.float64]:
    seconds = _numbers(trace.jobs[column])
    return seconds[np.isfinite(seconds)].clip(0, _style.LONGEST_S)


def _shortest_s(seconds: NDArray[np.float64]) -> float:
    """Return where an axis should begin: at a second, unless a tenth of the values that are not zero lie below."""
    positive = seconds[seconds > 0]
    tenth = float(np.quantile(positive, 0.1)) if len(positive) else 1.0
    return 1.0 if tenth >= 1.0 else max(tenth, 0.001)


def _sentence(parts: list[str]) -> str:
    text = ", ".join(parts)
    return text[:1].upper() + text[1:] + "."
