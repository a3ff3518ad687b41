"""A report as one HTML page with pictures, which loads nothing from anywhere. Needs the extra `plot`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, UsageError
from presage.synthesizers.fidelity._figures import Unmeasured
from presage.traces.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from presage.synthesizers.fidelity.report import Likeness, Report
    from presage.synthesizers.fidelity.two_sample import TwoSample
    from presage.traces import Trace
    from presage.traces.plots._sheet import Plot, Sheet, Table

    Row = tuple[str | None, ...]

SUFFIXES = (".html", ".htm")
NOTHING = "–"
_AT_MOST, _AT_LEAST = "≤\u00a0natural", "≥\u00a0natural"
_GOOD_LIKENESS = {
    "numbers, mean KS": "near 0",
    "labels, mean TV": "near 0",
    "labels, mean TV, people by name": "near 0",
    "correlations, mean difference": "near 0",
    "rank correlations, mean difference": "near 0",
    "classifier of single jobs, AUC": "near .5",
    "classifier with what came before, AUC": "near .5",
    "daily rhythm, TV": "near 0",
    "weekly rhythm, TV": "near 0",
    "runs beyond their limit": "as the log",
    "sizes that the log does not have": "0%",
    "jobs larger than the machine": "0%",
}


def write_page(report: Report, real: Trace, synthetic: Trace, path: str | Path) -> None:
    """Write `report`, on these two traces, to the HTML file `path`; the same report gives the same bytes.

    Raises UsageError for another suffix, OutputError for a file that cannot be written, and MissingDependencyError
    without matplotlib.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"A report cannot be written as {Path(path).suffix or 'a file without a suffix'!r}",
            expected="a file name that ends in .html",
            remedy="Rename the file to be written",
        )
    try:
        from presage.traces.plots import _html
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingDependencyError("matplotlib", extra="plot", purpose="Drawing a report") from None
    page = _html.render(sheet_of(report, real, synthetic))
    with replacing(Path(path)) as partial:
        partial.write_bytes(page)


def sheet_of(report: Report, real: Trace, synthetic: Trace) -> Sheet:
    """Return what stands on the page."""
    from presage.traces.plots._sheet import Sheet

    return Sheet(
        title=f"How true is {report.synthetic or 'the synthetic trace'}?",
        headline=_headline(report, real, synthetic),
        plots=_plots(report),
        tables=_tables(report),
        notes=[*_notes(report), *(f"Synthetic trace: {note}" for note in synthetic.manifest.notes)],
    )


def _arrival_span_s(trace: Trace) -> float | None:
    first, last = trace.jobs["submit_ms"].min(), trace.jobs["submit_ms"].max()
    return (last - first) / 1000 if isinstance(first, int) and isinstance(last, int) else None


def _headline(report: Report, real: Trace, synthetic: Trace) -> str:
    from presage.traces.plots import _words

    # From submit to submit: a trace without waits does not know when its last job ended.
    spans = [_arrival_span_s(trace) for trace in (synthetic, real)]
    made, logged = (f" over {_words.duration(span_s)}" if span_s else "" for span_s in spans)
    parts = [
        f"{report.synthetic_jobs:,} synthetic jobs{made}",
        f"learned from {report.real_jobs:,} jobs{logged} of {report.real or 'a log'}",
    ]
    generator = synthetic.manifest.generator
    if "synthesizer" in generator:
        parts.append(f"synthesizer {generator['synthesizer']}, seed {generator.get('seed', 0)}")
    return "  ·  ".join(parts)


def _plots(report: Report) -> list[Plot]:
    from presage.synthesizers.fidelity import _drawing, _pictures
    from presage.traces.plots._sheet import Plot

    marginals, correlations = report.likeness.marginals, report.likeness.correlations
    counts = (0, 0) if isinstance(marginals, Unmeasured) else (len(marginals.numbers), len(marginals.labels))
    square = 2.3 if isinstance(correlations, Unmeasured) else 3.9

    def plot(name: str, title: str, draw: Callable[..., str], height: float | None = None, **choice: bool) -> Plot:
        return Plot(name, title, lambda panel: draw(panel, report, **choice), height, height or 0.0)

    return [
        plot("numbers", "Columns of numbers", _pictures.numbers, _drawing.small_height_in(counts[0])),
        plot("labels", "Columns of labels", _pictures.labels, _drawing.small_height_in(counts[1]) + 0.3),
        plot("pearson", "What goes together", _pictures.correlations, square, ranks=False),
        plot("spearman", "What goes together, by ranks", _pictures.correlations, square, ranks=True),
        plot("classifiers", "Can they be told apart?", _pictures.classifiers),
        plot("persistence", "What goes on", _pictures.persistence),
        plot("daily", "Rhythm of the day", _pictures.daily),
        plot("weekly", "Rhythm of the week", _pictures.weekly),
        plot("arrivals", "Bursts of jobs", _pictures.bursts, work=False),
        plot("work", "Bursts of work", _pictures.bursts, work=True),
        plot("replay", "Does it queue like the log?", _pictures.replay, 2.4),
        plot("usefulness", "Is it good to learn from?", _pictures.usefulness),
        plot("copies", "Does it copy?", _pictures.copies),
    ]


def _tables(report: Report) -> list[Table]:
    from presage.traces.plots._sheet import Table

    tables = [Table("How far from the log", _likeness_rows(report), ("synthetic", "later jobs", "good"))]
    rhythm = _rhythm_rows(report)
    if rhythm:
        tables.append(Table("In time", rhythm, ("the log", "synthetic", "later jobs")))
    memory = _memory_rows(report)
    if memory:
        tables.append(Table("What it gives away", memory, ("synthetic", "natural", "good")))
    return tables


def _likeness_rows(report: Report) -> list[Row]:
    sides = [dict(_distances(side)) for side in (report.likeness, report.natural)]
    return [
        (name, sides[0][name], sides[1].get(name, NOTHING), good)
        for name, good in _GOOD_LIKENESS.items()
        if name in sides[0]
    ]


def _distances(side: Likeness | Unmeasured) -> Iterator[tuple[str, str]]:
    """Yield the names and the values of the distances of a trace from the log, of those that were measured."""
    if isinstance(side, Unmeasured):
        return
    if not isinstance(side.marginals, Unmeasured):
        yield "numbers, mean KS", _number(side.marginals.mean_ks)
        yield "labels, mean TV", _number(side.marginals.mean_tv)
        yield "labels, mean TV, people by name", _number(side.marginals.mean_tv_by_label)
    if not isinstance(side.correlations, Unmeasured):
        yield "correlations, mean difference", _number(side.correlations.pearson_difference)
        yield "rank correlations, mean difference", _number(side.correlations.spearman_difference)
    if not isinstance(side.rows, Unmeasured):
        yield "classifier of single jobs, AUC", _area(side.rows)
    if not isinstance(side.sequences, Unmeasured):
        yield "classifier with what came before, AUC", _area(side.sequences)
    if not isinstance(side.rhythms, Unmeasured):
        yield "daily rhythm, TV", _number(side.rhythms.daily_tv)
        yield "weekly rhythm, TV", _number(side.rhythms.weekly_tv)
    if not isinstance(side.constraints, Unmeasured):
        yield "runs beyond their limit", _share(side.constraints.synthetic.over_limit)
        yield "sizes that the log does not have", _share(side.constraints.synthetic.new_sizes)
        yield "jobs larger than the machine", _share(side.constraints.synthetic.too_large)


def _rhythm_rows(report: Report) -> list[Row]:
    from presage.synthesizers.fidelity._drawing import LATER, REAL, SYNTHETIC
    from presage.synthesizers.fidelity._pictures import rhythms_of

    sides = rhythms_of(report)
    if sides is None:
        return []
    ordered = [sides[REAL], sides[SYNTHETIC], sides.get(LATER)]
    parts = {
        "gap and the gap before, correlation": "ac1",
        "hourly jobs a day apart, correlation": "ac24",
        "same user as the job before": "same_user",
        "same user, size and limit": "repeated",
        "jobs per session": "session_jobs",
        "jobs in sessions of several": "in_sessions",
    }
    return [
        (words, *(NOTHING if side is None else _number(getattr(side, part)) for side in ordered))
        for words, part in parts.items()
    ]


def _memory_rows(report: Report) -> list[Row]:
    found = report.memorisation
    if isinstance(found, Unmeasured):
        return []
    mine, natural = found.synthetic, found.natural
    near, natural_near = _number(found.distance), _number(found.distance_natural)
    member, drift = _number(found.membership_auc), _number(found.drift_auc)
    return [
        ("copies of jobs", _share(mine.rows), _share(natural.rows), _AT_MOST),
        ("copies of jobs that few in the log are equal to", _share(mine.rare), _share(natural.rare), _AT_MOST),
        ("copies of jobs and their gaps", _share(mine.rows_and_gap), _share(natural.rows_and_gap), _AT_MOST),
        ("copies of four jobs of a user", _share(mine.sequences), _share(natural.sequences), _AT_MOST),
        ("distance to the nearest job of the log", near, natural_near, _AT_LEAST),
        ("nearer to the log than those not learned from", _share(found.nearer), "50%", "≤\u00a050%"),
        ("what was learned from told from what was not, AUC", member, drift, _AT_MOST),
    ]


def _notes(report: Report) -> list[str]:
    sections = {
        "Columns": report.likeness.marginals,
        "Correlations": report.likeness.correlations,
        "Classifier of single jobs": report.likeness.rows,
        "Classifier with what came before": report.likeness.sequences,
        "Rhythm": report.likeness.rhythms,
        "Later jobs": report.natural,
        "Usefulness": report.usefulness,
        "Waits": Unmeasured("") if isinstance(report.usefulness, Unmeasured) else report.usefulness.wait,
        "Replay": report.replay,
        "Memorisation": report.memorisation,
    }
    notes = [
        f"{name}: {part.reason}" for name, part in sections.items() if isinstance(part, Unmeasured) and part.reason
    ]
    if not isinstance(report.memorisation, Unmeasured):
        notes.append(
            f"What it gives away is measured beside {report.memorisation.reference}. The last row asks whether "
            "nearness to the synthetic trace shows that a job was learned from; its natural level is what "
            "half of the log shows of the other half. Later jobs differ by themselves, which raises both. "
            f"{_share(report.memorisation.halves.rows)} of the jobs in one half of the log are copies of jobs in "
            "its other half."
        )
    if not isinstance(report.replay, Unmeasured) and report.replay.dropped:
        notes.append(
            f"{report.replay.dropped:,} synthetic jobs do not fit the log's machine and were not replayed."
        )
    return notes


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else NOTHING


def _area(found: TwoSample) -> str:
    return f"{found.auc:.3f}\u00a0±\u00a0{found.spread:.3f}"


def _share(value: float) -> str:
    from presage.traces.plots import _words

    return _words.percent(value) if math.isfinite(value) else NOTHING
