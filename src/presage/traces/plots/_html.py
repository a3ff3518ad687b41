"""The figures, the summary and the notes as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from presage.traces.plots import FIGURES, _panels, _style, _words
from presage.traces.plots._stylesheet import STYLESHEET
from presage.traces.statistics import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.traces.statistics import Summary
    from presage.traces.trace import Trace

_SIZES_IN = {"wide": (11.0, 2.8), "narrow": (5.4, 3.2)}
_COLOURS = {
    _style.INK: "ink", _style.MUTED: "muted", _style.FAINT: "faint", _style.PAPER: "paper", _style.BLUE: "blue",
    _style.ORANGE: "orange", _style.GREEN: "green", _style.RED: "red", _style.SKY: "sky", _style.PINK: "pink",
    _style.GREY: "grey",
}  # fmt: skip
_COLOUR = re.compile("|".join(_COLOURS))
_UNKNOWN = '<span class="unknown">not in this log</span>'

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{stylesheet}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{headline}</p>
</header>
<nav aria-label="Contents">
<ul>
{links}
</ul>
</nav>
<main>
<section id="figures" class="figures" aria-label="Figures">
{figures}
</section>
<section id="summary" aria-labelledby="summary-title">
<h2 id="summary-title">Summary</h2>
<div class="tables">
{tables}
</div>
</section>
{notes}</main>
</body>
</html>
"""


def render(trace: Trace, names: Sequence[str], title: str | None) -> bytes:
    """Return the page of a trace."""
    summary = summarise(trace)
    notes = _notes(trace)
    contents = (
        {name: FIGURES[name] for name in names} | {"summary": "Summary"} | ({"notes": "Notes"} if notes else {})
    )
    page = _PAGE.format(
        title=escape(_words.shortened(title or summary.name or "Trace", 200)),
        stylesheet=STYLESHEET,
        headline=escape(_words.headline(summary)),
        links="\n".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in contents.items()),
        figures="\n".join(_figure(name, trace, summary) for name in names),
        tables="\n".join(_table(caption, rows) for caption, rows in _tables(summary)),
        notes=notes,
    )
    return page.encode()


def _figure(name: str, trace: Trace, summary: Summary) -> str:
    width = "wide" if _panels.is_wide(name, trace, summary) else "narrow"
    with _style.house_style(salt=name, svg_text=True):
        drawing = Figure(figsize=_SIZES_IN[width], facecolor="none", layout="constrained")
        panel = _panels.Panel(drawing, drawing.add_gridspec(1, 1)[0, 0])
        words = _panels.FIGURES[name](panel, trace, summary)
        _style.settle(drawing)
        written = io.StringIO()
        drawing.savefig(written, format="svg")
    title, sentence = escape(FIGURES[name]), escape(words)
    svg = _inline(written.getvalue(), f"{title}. {sentence}")
    heading, caption = f"<h2>{title}</h2>", f"<figcaption>{sentence}</figcaption>"
    return f'<figure id="{name}" class="{width}">\n{heading}\n<div>{svg}</div>\n{caption}\n</figure>'


def _inline(document: str, label: str) -> str:
    """Return an SVG document as an element of a page that scales with it and takes its colours from it."""
    body = document[document.index("<svg") :].strip()
    body = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", body, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]*)"', body)
    inner = body[body.index(">") + 1 :]
    # Matplotlib uses the ids axes_1, line2d_1, … in every figure, for nothing; those of a page must differ.
    inner = re.sub(r' id="[a-z0-9.]+_[^"]*"', "", inner)
    inner = _COLOUR.sub(lambda match: f"var(--{_COLOURS[match[0]]})", inner)
    inner = inner.replace("xlink:href", "href")
    return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{label}">{inner}'


def _table(caption: str, rows: Sequence[tuple[str, str | None]]) -> str:
    lines = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{_UNKNOWN if value is None else escape(value)}</td></tr>'
        for label, value in rows
    )
    return f"<table>\n<caption>{escape(caption)}</caption>\n<tbody>\n{lines}\n</tbody>\n</table>"


def _tables(summary: Summary) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Return the summary as captioned tables of labels and texts, None for what the log does not say."""
    formats = ", ".join(summary.formats) or None
    return [
        ("Log", [
            ("Format", formats),
            ("Scheduler", summary.scheduler),
            ("Jobs", f"{summary.jobs:,}"),
            ("Rejected rows", f"{summary.rejected:,}"),
            ("First submit", summary.first_submit),
            ("Last submit", summary.last_submit),
            ("Time zone", summary.time_zone),
            ("Span", _as(_words.duration, summary.span_s)),
        ]),
        ("Machine", [
            ("Nodes", _as(_words.count, summary.nodes)),
            ("Processors", _as(_words.count, summary.processors)),
            ("GPUs", _as(_words.count, summary.gpus)),
            ("Offered load", _as(_words.percent, summary.load)),
            ("Utilisation", _as(_words.percent, summary.utilisation)),
            ("GPU load", _as(_words.percent, summary.gpu_load)),
            ("GPU utilisation", _as(_words.percent, summary.gpu_utilisation)),
        ]),
        ("Times", [
            *_spread_rows("Wait", "wait_s", _words.duration, summary),
            *_spread_rows("Run time", "run_s", _words.duration, summary),
            *_spread_rows("Bounded slowdown", "bounded_slowdown", _words.brief, summary)[:2],
        ]),
        ("Jobs", [
            ("Processors, mean", _as(_words.brief, summary.mean_size)),
            ("Processors, most", _as(_words.count, summary.max_size)),
            ("More than one processor", _as(_words.percent, summary.multi_cpu_share)),
            ("GPU jobs", _as(_words.count, summary.gpu_jobs)),
            ("Requested time, median", _as(_words.duration, summary.median_limit_s)),
            ("Used of it, mean", _as(_words.percent, summary.mean_limit_use)),
            ("Ran beyond it", _as(_words.percent, summary.overrun_share)),
            ("Attempts per job", _as(_words.brief, summary.attempts_per_job)),
        ]),
        ("People", [
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


def _notes(trace: Trace) -> str:
    manifest = trace.manifest
    notes = list(manifest.notes)
    notes += [f"Acknowledgement: {manifest.acknowledgement}"] if manifest.acknowledgement else []
    notes += [f"Licence: {manifest.licence}"] if manifest.licence else []
    if not notes:
        return ""
    items = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
    heading = '<h2 id="notes-title">Notes</h2>'
    return f'<section id="notes" aria-labelledby="notes-title">\n{heading}\n<ul>\n{items}\n</ul>\n</section>\n'
