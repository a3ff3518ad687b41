"""What stands on one page: figures, and beside them tables and notes that only an HTML page has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.traces.plots import FIGURES, _panels, _words
from presage.traces.statistics import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.traces.plots._panels import Panel
    from presage.traces.statistics import Summary
    from presage.traces.trace import Trace

_HEIGHTS_IN = {"utilisation": 2.1, "queue": 2.1, "gpus": 3.0, "gantt": 6.0}
_HTML_HEIGHT_IN = 2.8

Cell = str | None
"""None is what the log does not say."""


@dataclass(frozen=True)
class Plot:
    """One figure."""

    name: str
    title: str
    draw: Callable[[Panel], str]
    """Draws into a panel and returns a sentence on what can be seen there."""
    height_in: float | None = None
    """Of a figure as wide as the page; None for one that shares its row with others."""
    html_height_in: float = _HTML_HEIGHT_IN
    """The same on an HTML page."""


@dataclass(frozen=True)
class Table:
    """A captioned table: a label and texts per row."""

    caption: str
    rows: Sequence[tuple[Cell, ...]]
    columns: Sequence[str] = ()
    """What stands over the texts, if they need it."""


@dataclass(frozen=True)
class Sheet:
    """A page."""

    title: str
    headline: str
    plots: Sequence[Plot]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def sheet_of(trace: Trace, names: Sequence[str], title: str | None) -> Sheet:
    """Return the page of a trace with the figures of these names."""
    summary = summarise(trace)
    return Sheet(
        title=title or summary.name or "Trace",
        headline=_words.headline(summary),
        plots=[_plot(name, trace, summary) for name in names],
        tables=_tables(summary),
        notes=_notes(trace),
    )


def _plot(name: str, trace: Trace, summary: Summary) -> Plot:
    wide = _panels.is_wide(name, trace, summary)
    return Plot(
        name,
        FIGURES[name],
        lambda panel: _panels.FIGURES[name](panel, trace, summary),
        _HEIGHTS_IN[name] if wide else None,
    )


def _tables(summary: Summary) -> list[Table]:
    """Return the summary as tables."""
    formats = ", ".join(summary.formats) or None
    return [
        Table("Log", [
            ("Format", formats),
            ("Scheduler", summary.scheduler),
            ("Jobs", f"{summary.jobs:,}"),
            ("Rejected rows", f"{summary.rejected:,}"),
            ("First submit", summary.first_submit),
            ("Last submit", summary.last_submit),
            ("Time zone", summary.time_zone),
            ("Span", _as(_words.duration, summary.span_s)),
        ]),
        Table("Machine", [
            ("Nodes", _as(_words.count, summary.nodes)),
            ("Processors", _as(_words.count, summary.processors)),
            ("GPUs", _as(_words.count, summary.gpus)),
            ("Offered load", _as(_words.percent, summary.load)),
            ("Utilisation", _as(_words.percent, summary.utilisation)),
            ("GPU load", _as(_words.percent, summary.gpu_load)),
            ("GPU utilisation", _as(_words.percent, summary.gpu_utilisation)),
        ]),
        Table("Times", [
            *_spread_rows("Wait", "wait_s", _words.duration, summary),
            *_spread_rows("Run time", "run_s", _words.duration, summary),
            *_spread_rows("Bounded slowdown", "bounded_slowdown", _words.brief, summary)[:2],
        ]),
        Table("Jobs", [
            ("Processors, mean", _as(_words.brief, summary.mean_size)),
            ("Processors, most", _as(_words.count, summary.max_size)),
            ("More than one processor", _as(_words.percent, summary.multi_cpu_share)),
            ("GPU jobs", _as(_words.count, summary.gpu_jobs)),
            ("Requested time, median", _as(_words.duration, summary.median_limit_s)),
            ("Used of it, mean", _as(_words.percent, summary.mean_limit_use)),
            ("Ran beyond it", _as(_words.percent, summary.overrun_share)),
            ("Attempts per job", _as(_words.brief, summary.attempts_per_job)),
        ]),
        Table("People", [
            ("Users", _as(_words.count, summary.users)),
            ("Accounts", _as(_words.count, summary.accounts)),
            ("Queues", _as(_words.count, summary.queues)),
            ("Partitions", _as(_words.count, summary.partitions)),
            ("Arrivals per day", _as(_words.brief, summary.arrivals_per_day)),
            ("Jobs of the most active user", _as(_words.percent, summary.top_user_share)),
            ("Same user as the job before", _as(_words.percent, summary.same_user_share)),
        ]),
    ]  # fmt: skip


def _spread_rows(
    label: str, field: str, write: Callable[[float], str], summary: Summary
) -> list[tuple[str, str | None]]:
    kinds = {"mean": "mean", "median": "median", "p90": "90th percentile", "p99": "99th percentile"}
    return [
        (f"{label}, {words}", _as(write, getattr(summary, f"{kind}_{field}"))) for kind, words in kinds.items()
    ]


def _as(write: Callable[[Any], str], value: float | None) -> str | None:
    return None if value is None else write(value)


def _notes(trace: Trace) -> list[str]:
    manifest = trace.manifest
    notes = list(manifest.notes)
    notes += [f"Acknowledgement: {manifest.acknowledgement}"] if manifest.acknowledgement else []
    notes += [f"Licence: {manifest.licence}"] if manifest.licence else []
    return notes
