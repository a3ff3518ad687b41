"""Pictures of a trace: one page as PNG, SVG or PDF, or an HTML page that needs nothing but itself.

Needs the extra `plot`; this module can be imported without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, UnknownNameError, UsageError
from presage.traces.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.traces.trace import Trace

    Render = Callable[[Trace, Sequence[str], str | None], bytes]

__all__ = ["FIGURES", "ON_DEMAND", "SUFFIXES", "draw"]

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
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"A trace cannot be drawn as {suffix or 'a file without a suffix'!r}",
            expected=f"a file name that ends in {', '.join(SUFFIXES[:-1])}",
            remedy="Rename the file to be written",
        )
    drawn = _chosen(trace, figures)
    picture = _renderer(suffix)(trace, drawn, title)
    with replacing(path) as partial:
        partial.write_bytes(picture)
    return drawn


def _chosen(trace: Trace, figures: Sequence[str] | None) -> list[str]:
    for name in figures or ():
        if name not in FIGURES:
            raise UnknownNameError("figure", name, FIGURES)
    if figures:
        return list(dict.fromkeys(figures))
    has_gpus = trace.manifest.has.get("gpus") or trace.manifest.machine.gpus
    return [name for name in FIGURES if name not in ON_DEMAND and (name != "gpus" or has_gpus)]


def _renderer(suffix: str) -> Render:
    try:
        from presage.traces.plots._html import render
        from presage.traces.plots._page import renderer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingDependencyError("matplotlib", extra="plot", purpose="Drawing a trace") from None
    return render if suffix in {".html", ".htm"} else renderer(suffix.removeprefix("."))
