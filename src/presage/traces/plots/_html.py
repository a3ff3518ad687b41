"""The figures, the summary and the notes as one HTML page that loads nothing from anywhere."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from presage.traces.plots import _panels, _style, _words
from presage.traces.plots._stylesheet import STYLESHEET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.plots._sheet import Plot, Sheet, Table

_WIDTH_IN = 11.0
_NARROW_IN = (5.4, 3.2)
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


def render(sheet: Sheet) -> bytes:
    """Return the page."""
    notes = _notes(sheet.notes)
    contents = (
        {plot.name: plot.title for plot in sheet.plots}
        | {"summary": "Summary"}
        | ({"notes": "Notes"} if notes else {})
    )
    page = _PAGE.format(
        title=escape(_words.shortened(sheet.title, 200)),
        stylesheet=STYLESHEET,
        headline=escape(sheet.headline),
        links="\n".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in contents.items()),
        figures="\n".join(_figure(plot) for plot in sheet.plots),
        tables="\n".join(_table(table) for table in sheet.tables),
        notes=notes,
    )
    return page.encode()


def _figure(plot: Plot) -> str:
    width = "narrow" if plot.height_in is None else "wide"
    size = _NARROW_IN if plot.height_in is None else (_WIDTH_IN, plot.html_height_in)
    with _style.house_style(salt=plot.name, svg_text=True):
        drawing = Figure(figsize=size, facecolor="none", layout="constrained")
        words = plot.draw(_panels.Panel(drawing, drawing.add_gridspec(1, 1)[0, 0]))
        _style.settle(drawing)
        written = io.StringIO()
        drawing.savefig(written, format="svg")
    title, sentence = escape(plot.title), escape(words)
    svg = _inline(written.getvalue(), f"{title}. {sentence}")
    heading, caption = f"<h2>{title}</h2>", f"<figcaption>{sentence}</figcaption>"
    return f'<figure id="{plot.name}" class="{width}">\n{heading}\n<div>{svg}</div>\n{caption}\n</figure>'


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


def _table(table: Table) -> str:
    lines = "\n".join(
        f'<tr><th scope="row">{escape(label or "")}</th>{"".join(_cell(cell) for cell in cells)}</tr>'
        for label, *cells in table.rows
    )
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    head = f"<thead><tr><td></td>{head}</tr></thead>\n" if head else ""
    return f"<table>\n<caption>{escape(table.caption)}</caption>\n{head}<tbody>\n{lines}\n</tbody>\n</table>"


def _cell(text: str | None) -> str:
    return f"<td>{_UNKNOWN if text is None else escape(text)}</td>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "\n".join(f"<li>{escape(note)}</li>" for note in notes)
    heading = '<h2 id="notes-title">Notes</h2>'
    return f'<section id="notes" aria-labelledby="notes-title">\n{heading}\n<ul>\n{items}\n</ul>\n</section>\n'
