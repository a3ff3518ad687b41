"""Pictures of a trace or of a comparison: one page as PNG, SVG or PDF, or an HTML page that needs nothing else.

Needs the extra `plot`; this module can be imported without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, UnknownNameError, UsageError
from presage.traces.files import replacing
from presage.traces.plots.contest import Contender, Contest, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.traces.plots._sheet import Sheet
    from presage.traces.trace import Trace

__all__ = [
    "FIGURES", "ON_DEMAND", "SUFFIXES", "Contender", "Contest", "Result", "check_picture", "draw", "draw_contest",
]  # fmt: skip

FIGURES = {
    "utilisation": "Utilisation over time",
    "queue": "Waiting jobs over time",
    "arrivals": "Arrivals by hour and weekday",
    "sizes": "Job sizes",
    "runtimes": "Run times and requested times",
    "requests": "Use of the requested time",
    "waits": "Waits",
    "users": "Most active users",
    "outcomes": "How jobs ended",
    "gpus": "GPUs",
    "gantt": "Jobs over time and processors",
}
"""Name of a figure → its title, in the order of the page."""

ON_DEMAND = {"gantt"}
"""Figures that are drawn only when they are asked for by name."""

SUFFIXES = (".png", ".svg", ".pdf", ".html", ".htm")


def draw(
    trace: Trace, path: str | Path, *, figures: Sequence[str] | None = None, title: str | None = None
) -> list[str]:
    """Draw a trace to the file `path`, whose suffix says as what, and return the names of the figures drawn.

    `figures` chooses from `FIGURES`, in the order given; without it, all are drawn, but for those of `ON_DEMAND`
    and for `gpus` where the log has none. A figure that the log cannot fill says so in words. The same trace
    gives the same bytes. Raises UsageError for an unknown suffix or folder, OutputError for a file that cannot be
    written, UnknownNameError for an unknown figure, and MissingDependencyError without matplotlib.
    """
    check_picture(path)
    drawn = _chosen(trace, figures)
    _check_matplotlib()
    from presage.traces.plots._sheet import sheet_of

    _write(sheet_of(trace, drawn, title), Path(path))
    return drawn


def draw_contest(contest: Contest, path: str | Path) -> None:
    """Draw what variants make of a baseline to the file `path`, whose suffix says as what.

    The same contest gives the same bytes. Raises UsageError for an unknown suffix or folder, OutputError for a
    file that cannot be written, and MissingDependencyError without matplotlib.
    """
    check_picture(path)
    _check_matplotlib()
    from presage.traces.plots._contest import sheet_of

    _write(sheet_of(contest), Path(path))


def check_picture(path: str | Path) -> None:
    """Raise UsageError unless the suffix of `path` says as what to draw."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"A trace cannot be drawn as {suffix or 'a file without a suffix'!r}",
            expected=f"a file name that ends in {', '.join(SUFFIXES[:-1])}",
            remedy="Rename the file to be written",
        )


def _chosen(trace: Trace, figures: Sequence[str] | None) -> list[str]:
    for name in figures or ():
        if name not in FIGURES:
            raise UnknownNameError("figure", name, FIGURES)
    if figures:
        return list(dict.fromkeys(figures))
    has_gpus = trace.manifest.has.get("gpus") or trace.manifest.machine.gpus
    return [name for name in FIGURES if name not in ON_DEMAND and (name != "gpus" or has_gpus)]


def _check_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401  (only whether it is there)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingDependencyError("matplotlib", extra="plot", purpose="Drawing a trace") from None


def _write(sheet: Sheet, path: Path) -> None:
    from presage.traces.plots import _html, _page

    suffix = path.suffix.lower()
    picture = _html.render(sheet) if suffix in {".html", ".htm"} else _page.render(sheet, suffix.removeprefix("."))
    with replacing(path) as partial:
        partial.write_bytes(picture)
