"""The figures of a comparison: what changes, who waits how long, how long the queue is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from presage.traces import statistics
from presage.traces.plots import _style, _words
from presage.traces.plots._sheet import Plot, Sheet, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from presage.traces.plots._panels import Panel
    from presage.traces.plots.contest import Contender, Contest, Result

MOST_CONTENDERS = 5
_COLOURS = (_style.BLUE, _style.ORANGE, _style.GREEN, _style.PINK, _style.SKY)
_BASELINE: dict[str, Any] = {"color": _style.INK, "linewidth": 1.5, "linestyle": (0, (4, 2))}
_LABEL_CHARS = 34
_CDF_POINTS = 400
_FURTHEST = 1000.0
_STEPS = {
    1.5: (1.01, 1.02, 1.05, 1.1, 1.2, 1.4),
    4.0: (1.25, 1.5, 2.0, 3.0, 5.0),
    np.inf: (2.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
}
"""Ratios at which an axis may have ticks, if it reaches no further than so far."""
_MOST_TICKS = 4
_TEXT_SHARE = 0.17
"""Of the width of the figure, for the number at the end of a bar."""
_BAR_IN, _GAP_IN, _EDGE_IN = 0.17, 0.14, 1.25
_QUEUE_IN = 2.6


def sheet_of(contest: Contest) -> Sheet:
    """Return the page of a comparison."""
    shown = contest.contenders[:MOST_CONTENDERS]
    left_out = len(contest.contenders) - len(shown)
    notes = [f"{left_out} more variants are in the table, and not in the figures."] if left_out else []
    rows = len(_shown_metrics(shown))
    height = _EDGE_IN + rows * (len(shown) * _BAR_IN + _GAP_IN)
    plots = [
        Plot("changes", "Change against the baseline", lambda panel: changes(panel, shown), height, height),
        Plot("waits", "Waits", lambda panel: waits(panel, contest.baseline, shown)),
        Plot("tails", "Long waits", lambda panel: tails(panel, contest.baseline, shown)),
        Plot("queue", "Waiting jobs over time", lambda panel: queue(panel, contest, shown), _QUEUE_IN, _QUEUE_IN),
    ]
    headline = "  ·  ".join([contest.headline, *(f"{left_out} variants not drawn" for _ in notes)])
    return Sheet(contest.title, headline, plots, [_table(contest)], notes)


def changes(panel: Panel, contenders: tuple[Contender, ...]) -> str:
    """Draw each metric as a ratio to the baseline, with intervals, a bar for every contender."""
    metrics = _shown_metrics(contenders)
    if not metrics:
        return panel.say("There is nothing to relate changes to: nobody waits in the baseline")
    axes = panel.axes()
    thick = 1 / (len(contenders) + _GAP_IN / _BAR_IN)
    ends = _ends(contenders, metrics)
    for number, contender in enumerate(contenders):
        found = {result.metric: result for result in contender.results}
        for row, metric in enumerate(metrics):
            place = row + (number - (len(contenders) - 1) / 2) * thick
            _bar(axes, found.get(metric), place, thick * 0.86, _COLOURS[number])
    _ratio_axis(axes, *ends)
    axes.set_ylim(len(metrics) - 0.5, -0.5)
    axes.set_yticks(range(len(metrics)), [_metric_label(metric, contenders) for metric in metrics])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    for row in range(1, len(metrics)):
        axes.axhline(row - 0.5, color=_style.FAINT, linewidth=0.8)
    _changes_legend(axes, contenders)
    return _winner_sentence(contenders, metrics)


def waits(panel: Panel, baseline: Contender, contenders: tuple[Contender, ...]) -> str:
    """Draw which share of the jobs waits for at most so long."""
    everyone = (baseline, *contenders)
    bounds = _wait_bounds(everyone)
    if bounds is None:
        return panel.say("Nobody waits")
    axes = panel.axes()
    low, high = bounds
    for each, line in zip(everyone, _lines(contenders), strict=True):
        seconds, share = statistics.cdf(each.waits_s.clip(low), points=_CDF_POINTS)
        label = _style.drawable(each.name, _LABEL_CHARS)
        axes.step(np.append(seconds, high), np.append(share, 1.0), where="post", label=label, **line)
    _style.duration_axis(axes, low, high, "wait")
    axes.set_ylim(0, 1.02)
    _style.share_axis(axes.yaxis, "share that waits at most so long")
    axes.legend(loc="lower right")
    medians = [f"{_words.duration(float(np.median(each.waits_s)))} in {each.name}" for each in everyone]
    return f"The median wait is {', '.join(medians)}."


def tails(panel: Panel, baseline: Contender, contenders: tuple[Contender, ...]) -> str:
    """Draw which share of the jobs waits longer, on a logarithmic scale, which shows the unlucky few."""
    everyone = (baseline, *contenders)
    bounds = _wait_bounds(everyone)
    if bounds is None:
        return panel.say("Nobody waits")
    axes = panel.axes()
    for each, line in zip(everyone, _lines(contenders), strict=True):
        ordered = np.sort(each.waits_s)
        longer = 1 - np.arange(len(ordered)) / len(ordered)  # the share that waits for at least so long
        kept = np.unique(np.geomspace(1, len(ordered), _CDF_POINTS).astype(np.int64))
        at = len(ordered) - kept[::-1]
        at = at[ordered[at] >= bounds[0]]
        axes.plot(ordered[at], longer[at], **line)
    _style.duration_axis(axes, *bounds, "wait")
    axes.set_yscale("log")
    axes.set_ylim(0.7 / max(len(each.waits_s) for each in everyone), 1.15)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("share that waits longer")
    longest = [f"{_words.duration(float(each.waits_s.max()))} in {each.name}" for each in everyone]
    return f"The longest wait is {', '.join(longest)}."


def queue(panel: Panel, contest: Contest, contenders: tuple[Contender, ...]) -> str:
    """Draw the number of waiting jobs over time."""
    everyone = [each for each in (contest.baseline, *contenders) if len(each.queue.mean)]
    if not everyone:
        return panel.say("Nobody waits")
    axes = panel.axes()
    first = min(int(each.queue.edges_ms[0]) for each in everyone)
    last = max(int(each.queue.edges_ms[-1]) for each in everyone)
    ends = np.array([first, last])
    begin, end = _style.time_axis(axes, ends, dated=contest.dated, zone=contest.time_zone)
    for each, line in zip((contest.baseline, *contenders), _lines(contenders), strict=True):
        if len(each.queue.mean):
            places = begin + (each.queue.edges_ms - first) * ((end - begin) / max(last - first, 1))
            label = _style.drawable(each.name, _LABEL_CHARS)
            axes.stairs(each.queue.mean, places, baseline=None, label=label, **{**line, "linewidth": 1.1})
    _style.count_axis(axes.yaxis, "waiting jobs")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), borderaxespad=0.1, ncols=len(everyone))
    means = [f"{_words.brief(_mean(each))} in {each.name}" for each in everyone]
    return f"The mean number of waiting jobs is {', '.join(means)}."


def _lines(contenders: tuple[Contender, ...]) -> list[dict[str, Any]]:
    """Return how the baseline and the contenders are drawn."""
    return [
        _BASELINE,
        *({"color": colour, "linewidth": 1.6} for _, colour in zip(contenders, _COLOURS, strict=False)),
    ]


def _shown_metrics(contenders: tuple[Contender, ...]) -> list[str]:
    """Return the metrics that can be drawn for at least one contender: of which less is better, with a ratio."""
    drawn = [
        result.metric
        for contender in contenders
        for result in contender.results
        if result.less_is_better and result.ratio is not None
    ]
    return list(dict.fromkeys(drawn))


def _wait_bounds(everyone: tuple[Contender, ...]) -> tuple[float, float] | None:
    """Return the round durations between which waits are told apart; None if nobody waits."""
    positive = np.concatenate([each.waits_s[each.waits_s > 0] for each in everyone])
    if not len(positive):
        return None
    shortest = max(min(float(np.quantile(positive, 0.02)), 60.0), 0.001)
    return _style.duration_bounds(shortest, float(positive.max()))


def _ends(contenders: tuple[Contender, ...], metrics: list[str]) -> tuple[float, float]:
    """Return the smallest and the largest ratio of a bar or an interval, each on its side of no change."""
    ratios = [
        float(np.clip(ratio, 1 / _FURTHEST, _FURTHEST))
        for contender in contenders
        for result in contender.results
        if result.metric in metrics
        for ratio in (result.ratio, result.ratio_low, result.ratio_high)
        if ratio is not None
    ]
    return min(1.0, *ratios), max(1.0, *ratios)


def _bar(axes: Axes, result: Result | None, place: float, thick: float, colour: str) -> None:
    if result is None or result.ratio is None:
        return

    def held(ratio: float) -> float:
        return float(np.clip(ratio, 1 / _FURTHEST, _FURTHEST))

    ratio = held(result.ratio)
    worse, unclear = ratio > 1, result.is_clear is False
    axes.barh(
        place, ratio - 1, thick, left=1.0, color=colour, alpha=0.4 if unclear else 1.0,
        hatch="/////" if worse and not unclear else None, edgecolor=_style.PAPER,
    )  # fmt: skip
    outer = ratio
    if result.ratio_low is not None and result.ratio_high is not None:
        low, high = held(result.ratio_low), held(result.ratio_high)
        axes.plot([low, high], [place, place], color=_style.PAPER, linewidth=2.0, solid_capstyle="butt")
        axes.plot([low, high], [place, place], color=_style.INK, linewidth=1.0, solid_capstyle="butt")
        axes.plot([low, high], [place, place], "|", color=_style.INK, markersize=4.5, markeredgewidth=1.0)
        outer = max(high, ratio) if worse else min(low, ratio)
    axes.annotate(
        f"{_amount(result.value, result)}  {_change(result.ratio)}", (outer, place),
        xytext=(5 if worse else -5, -0.4), textcoords="offset points", fontsize=7.2, va="center",
        color=_style.RED if worse and not unclear else _style.MUTED, ha="left" if worse else "right",
    )  # fmt: skip


def _ratio_axis(axes: Axes, smallest: float, largest: float) -> None:
    """Make the x axis one of ratios, logarithmic, so that half and twice are equally far from no change."""
    axes.set_xscale("log")
    span = max(np.log(largest / smallest), np.log(1.02))
    room = float(np.exp(span * _TEXT_SHARE / (1 - 2 * _TEXT_SHARE)))
    left, right = smallest / room, largest * room
    axes.set_xlim(left, right)
    axes.axvspan(left, 1.0, color=_style.GREEN, alpha=0.06, linewidth=0)
    axes.axvspan(1.0, right, color=_style.RED, alpha=0.06, linewidth=0)
    axes.axvline(1.0, color=_style.INK, linewidth=1.1)
    steps = next(steps for reach, steps in _STEPS.items() if max(largest, 1 / smallest) <= reach)
    lower = [1 / step for step in steps if 1 / step >= left][-_MOST_TICKS:]
    upper = [step for step in steps if step <= right][-_MOST_TICKS:]
    axes.xaxis.set_major_locator(FixedLocator([*lower, 1.0, *upper]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: _tick(ratio)))
    axes.set_xlabel("value over that of the baseline")
    for place, side, words in ((0.008, "left", "← better"), (0.992, "right", "worse →")):
        axes.text(
            place, 1.012, words, transform=axes.transAxes, ha=side, va="bottom", color=_style.MUTED, fontsize=8
        )


def _tick(ratio: float) -> str:
    if abs(ratio - 1) < 1e-9:
        return "same"
    factor = max(ratio, 1 / ratio)
    if factor < 2 - 1e-9:
        return f"{100 * (ratio - 1):+.0f}%".replace("-", "−")
    return f"{'×' if ratio > 1 else '÷'}{round(factor, 3):g}"


def _metric_label(metric: str, contenders: tuple[Contender, ...]) -> str:
    """Return the metric with the baseline's value, where all contenders have the same baseline."""
    found = [result for each in contenders for result in each.results if result.metric == metric]
    baselines = {result.baseline for result in found}
    return f"{metric}\n{_amount(found[0].baseline, found[0])}" if len(baselines) == 1 else metric


def _changes_legend(axes: Axes, contenders: tuple[Contender, ...]) -> None:
    handles = [
        Patch(color=colour, label=_style.drawable(each.name, _LABEL_CHARS))
        for each, colour in zip(contenders, _COLOURS, strict=False)
    ]
    handles.append(Patch(facecolor=_style.GREY, edgecolor=_style.PAPER, hatch="/////", label="worse"))
    handles.append(Patch(facecolor=_style.GREY, alpha=0.4, label="may be chance"))
    axes.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(handles), borderaxespad=0.2
    )
    axes.set_title(axes.get_title(loc="left"), pad=24, loc="left")


def _winner_sentence(contenders: tuple[Contender, ...], metrics: list[str]) -> str:
    """Return which contender is clearly better and worse in how many metrics."""
    parts = []
    for each in contenders:
        clear = [result for result in each.results if result.metric in metrics and result.is_clear]
        better = sum(1 for result in clear if result.ratio is not None and result.ratio < 1)
        parts.append(f"{each.name} is clearly better in {better} metrics and worse in {len(clear) - better}")
    return f"{'; '.join(parts)}. Whiskers are 95 % intervals."


def _table(contest: Contest) -> Table:
    """Return all results as a table: the baseline's values, and every contender's with their changes."""
    metrics = dict.fromkeys(result.metric for each in contest.contenders for result in each.results)
    rows: list[tuple[str | None, ...]] = []
    for metric in metrics:
        found = [next((r for r in each.results if r.metric == metric), None) for each in contest.contenders]
        known = [result for result in found if result is not None]
        cells = [_amount(known[0].baseline, known[0]), *(_written(result) for result in found)]
        rows.append((metric, *cells))
    names = [_words.shortened(each.name, 60) for each in (contest.baseline, *contest.contenders)]
    return Table("Metrics, change against the baseline and its 95 % interval", rows, names)


def _written(result: Result | None) -> str | None:
    if result is None:
        return None
    text = _amount(result.value, result)
    if result.ratio is None:
        return text
    if result.ratio_low is None or result.ratio_high is None:
        return f"{text} ({_change(result.ratio)})"
    interval = f"{_change(result.ratio_low)} to {_change(result.ratio_high)}"
    return f"{text} ({_change(result.ratio)}; {interval})"


def _amount(value: float, result: Result) -> str:
    if result.unit == "seconds":
        return _words.duration(value)
    if result.unit == "share":
        return _words.percent(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _change(ratio: float) -> str:
    if ratio >= 10:
        return f"×{_words.brief(ratio)}"
    percent = 100 * (ratio - 1)
    digits = 0 if abs(percent) >= 9.95 else 1
    return f"{percent:+.{digits}f}%".replace("-", "−")


def _mean(contender: Contender) -> float:
    return float(np.average(contender.queue.mean, weights=np.diff(contender.queue.edges_ms)))
