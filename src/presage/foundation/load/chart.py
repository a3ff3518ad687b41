"""The picture of a load forecast: fans of utilisation and queue. Needs the extra `plot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError
from presage.traces.files import replacing
from presage.traces.plots import check_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.foundation.load.forecast import Hour, LoadForecast, Range, ScopeForecast
    from presage.traces import Trace
    from presage.traces.plots._panels import Panel
    from presage.traces.plots._sheet import Plot, Sheet

_MOST_SCOPES = 6
_HEIGHT_IN = 2.3


def draw_forecast(forecast: LoadForecast, trace: Trace, path: str | Path) -> None:
    """Draw a forecast to the file `path`, whose suffix says as what; of many scopes, the first six.

    The same forecast gives the same bytes. Raises UsageError for an unknown suffix or folder, OutputError for a
    file that cannot be written, and MissingDependencyError without matplotlib.
    """
    check_picture(path)
    try:
        from presage.traces.plots import _html, _page
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingDependencyError("matplotlib", extra="plot", purpose="Drawing a forecast") from None
    path = Path(path)
    sheet = _sheet(forecast, trace)
    suffix = path.suffix.lower()
    picture = _html.render(sheet) if suffix in {".html", ".htm"} else _page.render(sheet, suffix.removeprefix("."))
    with replacing(path) as partial:
        partial.write_bytes(picture)


def _sheet(forecast: LoadForecast, trace: Trace) -> Sheet:
    from presage.simulator.present import instant
    from presage.traces.plots._sheet import Sheet

    plots = [plot for scope in forecast.scopes[:_MOST_SCOPES] for plot in _plots(scope)]
    now = instant(trace, forecast.at_ms)
    return Sheet(
        title=f"Load of {forecast.trace or 'the cluster'}",
        headline=f"The next {forecast.scopes[0].hours[-1].ahead_h} hours from {now} on",
        plots=plots,
        notes=[*forecast.notes, *dict.fromkeys(note for scope in forecast.scopes for note in scope.notes)],
    )


def _plots(scope: ScopeForecast) -> list[Plot]:
    from presage.traces.plots._sheet import Plot

    def fan(
        name: str, title: str, of: Callable[[Hour], Range | None], now: float, scale: float, label: str
    ) -> Plot:
        ranges = [expected for hour in scope.hours if (expected := of(hour)) is not None]
        ahead = [hour.ahead_h for hour in scope.hours]
        return Plot(
            f"{scope.kind}-{scope.name}-{name}",
            f"{title}, {scope.name}",
            lambda panel: _draw(panel, ahead, ranges, now, scale, label),
            _HEIGHT_IN,
        )

    plots = [fan("utilisation", "Utilisation", lambda hour: hour.utilisation, scope.utilisation, 100, "%")]
    if scope.hours[0].queue_length is not None:
        plots.append(fan("queue", "Waiting jobs", lambda hour: hour.queue_length, scope.waiting, 1, "jobs"))
    return plots


def _draw(
    panel: Panel, ahead: Sequence[int], ranges: Sequence[Range], now: float, scale: float, label: str
) -> str:
    """Draw one fan and return what can be seen in it."""
    from presage.traces.plots import _style

    axes = panel.axes()
    hours = [0, *ahead]
    low, middle, high = (
        [scale * now, *(scale * getattr(expected, name) for expected in ranges)] for name in ("p10", "p50", "p90")
    )
    axes.fill_between(hours, low, high, color=_style.SKY, alpha=0.35, label="8 in 10")
    axes.plot(hours, middle, color=_style.BLUE, label="median")
    axes.set_xlim(0, hours[-1])
    axes.set_xticks(range(0, hours[-1] + 1, 3 if hours[-1] > 6 else 1))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("hours from now")
    axes.set_ylabel(label)
    axes.legend(loc="upper right")
    return f"In {hours[-1]} hours {middle[-1]:,.3g} {label}, 8 in 10 between {low[-1]:,.3g} and {high[-1]:,.3g}."
