"""Pictures of estimates and plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.estimators.training.estimating import TrainingEstimate
    from presage.planner.options import Option

_GIB = float(1 << 30)
_HOUR_S = 3600.0


def memory_figure(estimates: Sequence[TrainingEstimate]) -> Any:
    """Return memory by batch size with its interval, one line for each place."""
    figure, axes = _figure()
    for place in dict.fromkeys(each.place for each in estimates):
        there = sorted(
            (each for each in estimates if each.place == place), key=lambda each: each.workload.options.batch
        )
        batches = [each.workload.options.batch for each in there]
        spreads = [each.memory.spread for each in there]
        middle = [spread.p50 / _GIB for spread in spreads]
        below = [(spread.p50 - spread.p10) / _GIB for spread in spreads]
        above = [(spread.p90 - spread.p50) / _GIB for spread in spreads]
        axes.errorbar(batches, middle, yerr=[below, above], marker="o", capsize=3, label=place)
        axes.axhline(there[0].limit_bytes / _GIB, linestyle=":", color="grey")
    axes.set(xlabel="batch size", ylabel="memory, GiB", ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def front_figure(options: Sequence[Option], front: Sequence[Option]) -> Any:
    """Return cost by completion time of all options that fit, those that no other beats in both joined."""
    figure, axes = _figure()
    fitting = [each for each in options if each.completion is not None and each.cost is not None]
    axes.scatter(*_points(fitting), s=12, color="grey", label="options")
    axes.plot(*_points(sorted(front, key=_completion_s)), marker="o", label="no other is faster and cheaper")
    axes.set(xlabel="done after, hours (median)", ylabel="cost (median)", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def _points(options: Sequence[Option]) -> tuple[list[float], list[float]]:
    hours = [_completion_s(each) / _HOUR_S for each in options]
    return hours, [each.cost.p50 if each.cost is not None else 0.0 for each in options]


def _completion_s(option: Option) -> float:
    return option.completion.p50 if option.completion is not None else 0.0


def _figure() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("matplotlib", extra="plot", purpose="A figure") from None
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    return figure, figure.subplots()
