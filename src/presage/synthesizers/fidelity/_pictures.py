"""The figures of a report: each draws into a panel and says what one sees, and what good would look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from presage.synthesizers.fidelity._drawing import (
    COLOURS,
    DASHES,
    LATER,
    REAL,
    SYNTHETIC,
    draw_band,
    draw_distribution,
    draw_groups,
    draw_heat_map,
    draw_shares,
    line_of,
    metric_axis,
    name_of,
    small_grid,
)
from presage.synthesizers.fidelity._figures import Unmeasured
from presage.synthesizers.fidelity.replay import POLICIES
from presage.traces.plots import _style, _words

if TYPE_CHECKING:
    from presage.synthesizers.fidelity.report import Report
    from presage.synthesizers.fidelity.temporal import Rhythm
    from presage.traces.plots._panels import Panel

_METRICS = {
    "mean_wait_s": "mean wait", "mean_bounded_slowdown": "mean bounded slowdown", "utilization": "utilisation",
}  # fmt: skip


def numbers(panel: Panel, report: Report) -> str:
    """Draw the distribution of every number in both traces."""
    marginals = report.likeness.marginals
    if isinstance(marginals, Unmeasured):
        return panel.say(_short(marginals))
    axes = small_grid(panel, len(marginals.numbers))
    for each, column in zip(axes, marginals.numbers, strict=False):
        draw_distribution(each, column)
    axes[0].legend(loc="upper left")
    worst = max(marginals.numbers, key=lambda column: column.ks)
    return (
        "The share of jobs with at most so much, for the log (dashed) and the synthetic trace: the furthest "
        f"apart is {name_of(worst.name)}, by {worst.ks:.2f}; a good trace has its lines on those of the log, "
        "where all distances (KS) are near 0."
    )


def labels(panel: Panel, report: Report) -> str:
    """Draw the shares of labels in both traces."""
    marginals = report.likeness.marginals
    if isinstance(marginals, Unmeasured):
        return panel.say(_short(marginals))
    if not marginals.labels:
        return panel.say("This log has no queues, users or outcomes")
    axes = small_grid(panel, len(marginals.labels))
    for each, column in zip(axes, marginals.labels, strict=False):
        draw_shares(each, column)
    axes[0].legend(loc="upper right")
    worst = max(marginals.labels, key=lambda column: column.tv)
    return (
        "Which share of the jobs has which label; people are compared by rank, because their names mean "
        f"nothing. The furthest apart is {name_of(worst.name)}, where {_words.percent(worst.tv)} of the jobs "
        "would have to change; a good trace has pairs of equal bars."
    )


def correlations(panel: Panel, report: Report, *, ranks: bool) -> str:
    """Draw which columns go together in the log, in the synthetic trace, and the difference."""
    found = report.likeness.correlations
    if isinstance(found, Unmeasured):
        return panel.say(_short(found))
    real, synthetic = (
        (found.spearman_real, found.spearman_synthetic) if ranks else (found.pearson_real, found.pearson_synthetic)
    )
    difference = tuple(
        tuple(b - a for a, b in zip(*rows, strict=True)) for rows in zip(real, synthetic, strict=True)
    )
    names = [name_of(name) for name in found.names]
    titles = (REAL, SYNTHETIC, "difference")
    for place, (axes, matrix) in enumerate(zip(panel.grid(1, 3), (real, synthetic, difference), strict=True)):
        draw_heat_map(axes, matrix, names, titles[place], named=place == 0)
    mean = found.spearman_difference if ranks else found.pearson_difference
    return (
        "Blue pairs grow together, orange ones against each other; the synthetic trace misses the log by "
        f"{mean:.3f} on average over pairs. A good trace has the same picture twice, and an empty third one."
    )


def classifiers(panel: Panel, report: Report) -> str:
    """Draw how well a classifier tells the traces apart, beside how well it tells months of the log apart."""
    likeness, natural = report.likeness, report.natural
    pairs = {"single jobs": "rows", "with what\ncame before": "sequences"}
    if isinstance(likeness.rows, Unmeasured):
        return panel.say(_short(likeness.rows))
    axes = panel.axes()
    sides: dict[str, Any] = {SYNTHETIC: likeness} | ({} if isinstance(natural, Unmeasured) else {LATER: natural})
    for number, (name, side) in enumerate(sides.items()):
        for place, section in enumerate(pairs.values()):
            found = getattr(side, section)
            if isinstance(found, Unmeasured):
                continue
            at = place + (number - (len(sides) - 1) / 2) * 0.34
            axes.bar(at, found.auc, 0.32, color=COLOURS[name], label=name if not place else None)
            axes.plot([at, at], [min(found.folds), max(found.folds)], color=_style.ORANGE, linewidth=1.6)
            axes.annotate(f"{found.auc:.2f}", (at, 0.02), ha="center", color=_style.PAPER, fontsize=8)
    axes.axhline(0.5, color=_style.RED, linewidth=1.2, linestyle=DASHES)
    axes.set_xticks(range(len(pairs)), list(pairs))
    axes.set_ylim(0, 1.18)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel("area under the curve")
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper left", ncols=2)
    level = "" if LATER not in sides else ", and no trace need be better than the log's own later jobs are"
    return (
        "How well a classifier tells jobs from those of the log, over five folds: 1 is always and .5, the "
        f"dashed line, not at all. A good trace comes near .5{level}."
    )


def persistence(panel: Panel, report: Report) -> str:
    """Draw how much each trace goes on with what it just did."""
    sides = rhythms_of(report)
    if sides is None:
        return panel.say("No rhythm could be measured")
    parts = {
        "ac1": "gap like\nthe last", "ac24": "hour like\nyesterday's", "same_user": "same\nuser again",
        "repeated": "same job\nagain", "in_sessions": "in a\nsession",
    }  # fmt: skip
    known = {part: words for part, words in parts.items() if np.isfinite(getattr(sides[REAL], part))}
    if not known:
        return panel.say("The log is too short")
    axes = panel.axes()
    draw_groups(axes, {name: [getattr(side, part) for part in known] for name, side in sides.items()})
    axes.set_xticks(range(len(known)), list(known.values()))
    axes.set_ylabel("correlation or share of jobs")
    axes.legend(loc="upper left")
    return (
        "How much jobs resemble those just before them: correlations of gaps and of hourly counts a day "
        "apart, then shares of jobs. A good trace has bars as high as the log's; rows drawn one by one have "
        "almost none."
    )


def daily(panel: Panel, report: Report) -> str:
    """Draw when in the day jobs come."""
    sides = rhythms_of(report)
    if sides is None:
        return panel.say("No rhythm could be measured")
    axes = panel.axes()
    for name, side in sides.items():
        axes.stairs([*side.daily], range(25), baseline=None, label=name, **line_of(name))
    axes.set_xticks(range(0, 25, 6), [f"{hour}:00" for hour in range(0, 25, 6)])
    axes.set_ylim(bottom=0)
    _style.share_axis(axes.yaxis)
    axes.legend(loc="lower right")
    return (
        f"The share of jobs in each hour of the day; {_apart(report, 'daily_tv')} come at another hour of the day."
    )


def weekly(panel: Panel, report: Report) -> str:
    """Draw on which days of the week jobs come."""
    sides = rhythms_of(report)
    if sides is None:
        return panel.say("No rhythm could be measured")
    axes = panel.axes()
    draw_groups(axes, {name: [*side.weekly] for name, side in sides.items()})
    axes.set_xticks(range(7), list("MTWTFSS"))
    _style.share_axis(axes.yaxis)
    axes.legend(loc="upper right")
    return f"The share of jobs on each day of the week; {_apart(report, 'weekly_tv')} come on another day."


def bursts(panel: Panel, report: Report, *, work: bool) -> str:
    """Draw how unevenly jobs, or their work, come at several scales of time."""
    sides = rhythms_of(report)
    if sides is None:
        return panel.say("No rhythm could be measured")
    part = "work_variation" if work else "jobs"
    values = {name: [getattr(each, part) for each in side.bursts] for name, side in sides.items()}
    if not np.isfinite(values[REAL]).any():
        return panel.say("The log is too short, or does not say how large its jobs are")
    axes = panel.axes()
    draw_groups(axes, values)
    axes.set_xticks(range(3), [f"per {_words.duration(each.hours * 3600)}" for each in sides[REAL].bursts])
    axes.set_ylabel("standard deviation / mean" if work else "variance / mean")
    axes.legend(loc="upper right" if work else "upper left")
    if work:
        return (
            "How much the work that arrives (processors x run time) varies from window to window: what makes "
            "queues. A good trace has the log's bars; higher ones queue more at the same load, lower ones "
            "less."
        )
    return (
        "How bursty arrivals are: 1 would be jobs that come independently of each other. A good trace has the "
        "log's bars at every scale."
    )


def replay(panel: Panel, report: Report) -> str:
    """Draw what the log's machine makes of the trace, beside what it makes of windows of the log."""
    found = report.replay
    if isinstance(found, Unmeasured):
        return panel.say(_short(found))
    for axes, metric in zip(panel.grid(1, len(_METRICS)), _METRICS, strict=True):
        outcomes = [found.outcome(policy, metric) for policy in POLICIES]
        for place, outcome in enumerate(outcomes):
            draw_band(axes, place, outcome)
        axes.set_yticks(range(len(POLICIES)), list(POLICIES) if metric == "mean_wait_s" else [""] * len(POLICIES))
        axes.set_ylim(len(POLICIES) - 0.4, -0.6)
        axes.set_title(_METRICS[metric], fontsize=9, loc="center")
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        metric_axis(axes, metric, outcomes)
    inside = sum(each.inside for each in found.outcomes)
    return (
        f"The trace replayed on the log's machine at load {found.load:.2f}, in windows of "
        f"{found.window_jobs:,} jobs: each dot is one, the diamond their mean, orange if it lies outside the "
        f"grey band, which holds all windows of the log (dark: the middle 80 %). {inside} of "
        f"{len(found.outcomes)} means lie in their band; in a good trace all do."
    )


def usefulness(panel: Panel, report: Report) -> str:
    """Draw how well run times and waits are predicted after learning from each trace."""
    found = report.usefulness
    if isinstance(found, Unmeasured):
        return panel.say(_short(found))
    transfers = {"run time": found.run} | ({} if isinstance(found.wait, Unmeasured) else {"wait": found.wait})
    axes = panel.axes()
    bars = {"one guess for all": "constant_mae", SYNTHETIC: "synthetic_mae", REAL: "real_mae"}
    colours = {**COLOURS, "one guess for all": _style.GREY}
    for number, (name, part) in enumerate(bars.items()):
        values = [getattr(each, part) for each in transfers.values()]
        places = np.arange(len(values)) + (number - 1) * 0.27
        drawn = axes.bar(
            places, values, 0.25, color=colours[name], label=f"learned from {name}" if number else name
        )
        axes.bar_label(drawn, [f"{value:.2f}" for value in values], fontsize=7.5, color=_style.MUTED, padding=2)
    axes.set_xticks(range(len(transfers)), list(transfers))
    axes.set_xlim(-0.6, len(transfers) - 0.4)
    axes.set_ylim(0, max(max(each.constant_mae, each.synthetic_mae) for each in transfers.values()) * 1.5)
    axes.set_ylabel("mean error of the logarithm")
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper right")
    return (
        f"How far off predictions are for {found.tested_on}, by what they were learned from: learning from the "
        f"synthetic trace makes {found.run.ratio:.2f} times the error of learning from the log; a good trace "
        "makes 1."
    )


def copies(panel: Panel, report: Report) -> str:
    """Draw how many synthetic jobs are copies, beside how many jobs of the log repeat others by themselves."""
    found = report.memorisation
    if isinstance(found, Unmeasured):
        return panel.say(_short(found))
    parts = {"rows": "same job", "rows_and_gap": "same job\nand gap", "sequences": "same four\njobs of a user"}
    known = {part: words for part, words in parts.items() if np.isfinite(getattr(found.synthetic, part))}
    sides = {SYNTHETIC: found.synthetic, LATER: found.natural}
    axes = panel.axes()
    values = {name: [getattr(side, part) for part in known] for name, side in sides.items()}
    values = {name: each for name, each in values.items() if np.isfinite(each).all()}
    draw_groups(axes, values, text=_words.percent)
    axes.set_xticks(range(len(known)), list(known.values()))
    axes.set_ylim(0, max(0.02, *(1.2 * max(each) for each in values.values())))
    _style.share_axis(axes.yaxis, "share that are in the log")
    axes.legend(loc="upper right")
    beside = f", beside {found.reference}" if LATER in values else ""
    return (
        f"How many synthetic jobs are copies of jobs that were learned from{beside}: people repeat themselves, "
        "so some are natural. A good trace has no more of them than the log's own."
    )


def rhythms_of(report: Report) -> dict[str, Rhythm] | None:
    """Return the rhythm of every trace by its name; None where it was not measured."""
    found = report.likeness.rhythms
    if isinstance(found, Unmeasured):
        return None
    sides = {REAL: found.real, SYNTHETIC: found.synthetic}
    natural = report.natural
    if not isinstance(natural, Unmeasured) and not isinstance(natural.rhythms, Unmeasured):
        sides[LATER] = natural.rhythms.synthetic
    return sides


def _apart(report: Report, part: str) -> str:
    found, natural = report.likeness.rhythms, report.natural
    words = f"{_words.percent(getattr(found, part))} of the synthetic jobs"
    if not isinstance(natural, Unmeasured) and not isinstance(natural.rhythms, Unmeasured):
        usual = _words.percent(getattr(natural.rhythms, part))
        words += f" (of the log's later ones {usual}; a good trace has no more)"
    return words


def _short(section: Unmeasured) -> str:
    text = section.reason.rstrip(".")
    return text[:1].upper() + text[1:]
