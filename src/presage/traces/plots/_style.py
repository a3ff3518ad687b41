"""Colours, fonts and axes that all figures share."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from presage.traces.plots import _words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

FONT = "DejaVu Sans"
INK = "#1d2733"
MUTED = "#5f6c7b"
FAINT = "#dfe5ec"
PAPER = "#ffffff"
# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLUE = "#0072b2"
ORANGE = "#e69f00"
GREEN = "#009e73"
RED = "#d55e00"
SKY = "#56b4e9"
PINK = "#cc79a7"
GREY = "#8b97a5"

_STYLE: dict[Any, Any] = {
    "font.family": FONT, "font.size": 9.0, "text.color": INK, "text.parse_math": False,
    "axes.edgecolor": GREY, "axes.labelcolor": MUTED, "axes.labelsize": 8.5, "axes.linewidth": 0.7,
    "axes.titlesize": 10.5, "axes.titleweight": "bold", "axes.titlecolor": INK, "axes.titlelocation": "left",
    "axes.titlepad": 8.0, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.facecolor": "none", "axes.grid": True, "axes.grid.axis": "y", "grid.color": FAINT, "grid.linewidth": 0.8,
    "xtick.color": GREY, "xtick.labelcolor": MUTED, "xtick.labelsize": 8.0, "xtick.major.width": 0.7,
    "ytick.color": GREY, "ytick.labelcolor": MUTED, "ytick.labelsize": 8.0, "ytick.major.width": 0.7,
    "legend.facecolor": PAPER, "legend.edgecolor": "none", "legend.framealpha": 0.85, "legend.fontsize": 8.0,
    "legend.labelcolor": MUTED, "legend.handlelength": 1.4,
    "lines.linewidth": 1.7, "patch.linewidth": 0.0, "pdf.fonttype": 42,
}  # fmt: skip

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
_DURATION_TICKS = (
    (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s"), (MINUTE_S, "1 min"),
    (10 * MINUTE_S, "10 min"), (HOUR_S, "1 h"), (6 * HOUR_S, "6 h"), (DAY_S, "1 d"), (7 * DAY_S, "1 w"),
    (30 * DAY_S, "30 d"), (365 * DAY_S, "1 y"), (3650 * DAY_S, "10 y"), (36_500 * DAY_S, "100 y"),
)  # fmt: skip
_SPARSE = {"1 ms", "1 s", "1 min", "1 h", "1 d", "30 d", "1 y", "100 y"}
LONGEST_S = _DURATION_TICKS[-1][0]
MAX_TICKS = 7
_DATED_FROM_S = 120.0
_DATED_MS = (-2_208_988_800_000, 7_258_118_400_000)  # 1900 to 2200


@contextmanager
def house_style(*, salt: str, svg_text: bool = False) -> Iterator[None]:
    """Set matplotlib to our style for a while, whatever the user's own settings are.

    `salt` makes the ids inside an SVG reproducible, and different from those of a figure with another salt.
    With `svg_text`, letters stay text in an SVG; else they become outlines that look the same everywhere.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        fonttype = "none" if svg_text else "path"
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": f"presage-{salt}", "svg.fonttype": fonttype})
        yield


def settle(figure: Figure) -> None:
    """Lay the figure out once and for all.

    The layout's solver may give positions that differ in their last digits from one time to the next; rounded
    they do not, and equal traces give equal files.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(tuple(round(bound, 4) for bound in axes.get_position(original=True).bounds))


def drawable(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters, "?" for letters that the font lacks."""
    glyphs = _glyphs()
    return "".join(letter if ord(letter) in glyphs else "?" for letter in _words.shortened(text, most))


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(FONT)).get_charmap())


def share_axis(axis: Axis, label: str = "share of jobs") -> None:
    """Make an axis of shares from 0 to 1 read as percent."""
    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], min_n_ticks=2))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
    axis.set_label_text(label)


def count_axis(axis: Axis, label: str, *, whole: bool = False) -> None:
    """Make an axis of amounts, perhaps of whole things only, read with thousands apart."""
    axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=whole, min_n_ticks=1 if whole else 2))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _words.count(value)))
    axis.set_label_text(label)


def duration_bounds(low_s: float, high_s: float) -> tuple[float, float]:
    """Return the round durations that enclose two others."""
    rounds = [seconds for seconds, _ in _DURATION_TICKS]
    low = max((seconds for seconds in rounds[:-1] if seconds <= low_s), default=rounds[0])
    high = min((seconds for seconds in rounds if seconds >= high_s and seconds > low), default=rounds[-1])
    return low, high


def duration_axis(axes: Axes, low_s: float, high_s: float, label: str) -> None:
    """Make the x axis a logarithmic one of durations, with ticks that people use."""
    ticks = [(seconds, text) for seconds, text in _DURATION_TICKS if low_s <= seconds <= high_s]
    if len(ticks) > MAX_TICKS:
        ticks = [(seconds, text) for seconds, text in ticks if text in _SPARSE]
    axes.set_xscale("log")
    axes.set_xlim(*_with_room(low_s, high_s))
    _fixed_ticks(axes.xaxis, ticks)
    axes.set_xlabel(label)


def doubling_axis(axes: Axes, low: float, high: float, label: str) -> None:
    """Make the x axis a logarithmic one of amounts, with ticks at powers of two."""
    first, last = int(np.floor(np.log2(low))), int(np.ceil(np.log2(high)))
    if first == last:
        first, last = first - 1, last + 1
    step = -(-(last - first) // (MAX_TICKS - 1))
    powers = [power for power in range(first, last + 1) if power % step == 0]
    axes.set_xscale("log", base=2)
    axes.set_xlim(*_with_room(2.0**first, 2.0**last))
    _fixed_ticks(axes.xaxis, [(2.0**power, _words.count(2.0**power)) for power in powers])
    axes.set_xlabel(label)


def time_axis(axes: Axes, edges_ms: NDArray[np.int64], *, dated: bool, zone: str) -> NDArray[np.float64]:
    """Make the x axis one of time and return the places of `edges_ms` on it.

    Dates where the log knows them, else the time since the first submit in a unit that fits.
    """
    span_s = float(edges_ms[-1] - edges_ms[0]) / 1000
    if dated and span_s >= _DATED_FROM_S and _DATED_MS[0] < edges_ms[0] and edges_ms[-1] < _DATED_MS[1]:
        _dates(axes.xaxis, ZoneInfo(zone))
        places = edges_ms / (DAY_S * 1000)
    else:
        unit_s, unit = next(
            (
                (unit_s, unit)
                for unit_s, unit in ((DAY_S, "days"), (HOUR_S, "hours"), (MINUTE_S, "minutes"))
                if span_s >= 3 * unit_s
            ),
            (1.0, "seconds"),
        )
        places = (edges_ms - edges_ms[0]) / (unit_s * 1000)
        count_axis(axes.xaxis, f"{unit} since the first submit")
    axes.set_xlim(places[0], places[-1])
    return np.asarray(places, np.float64)


def _dates(axis: Axis, zone: ZoneInfo) -> None:
    # Matplotlib is typed, but for its dates.
    locator = AutoDateLocator(tz=zone, minticks=5, maxticks=12)  # type: ignore[no-untyped-call]
    formatter = ConciseDateFormatter(locator, tz=zone, show_offset=False)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)


def _with_room(low: float, high: float) -> tuple[float, float]:
    """Return bounds a little apart, so that a line along the edge of a logarithmic axis is seen in full."""
    room = float((high / low) ** 0.012)
    return low / room, high * room


def _fixed_ticks(axis: Axis, ticks: list[tuple[float, str]]) -> None:
    axis.set_ticks([place for place, _ in ticks], [text for _, text in ticks])
    axis.set_minor_locator(NullLocator())
