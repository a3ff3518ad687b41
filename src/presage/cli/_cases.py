"""Logs with forecasts, for commands that order queues by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.cli._output import progress

if TYPE_CHECKING:
    from presage.foundation.model import Model
    from presage.learning.cases import Case
    from presage.traces import Trace


def forecast_case(trace: Trace, model: Model, *, processors: int | None, first: float = 0.0) -> Case:
    """Return the jobs of a trace from a share of it on, each forecast as it was submitted."""
    from presage.foundation.view.tasks import Task
    from presage.learning.cases import case_of

    with progress("forecasting", len(trace) * (1 - first)) as advance:
        done_before = 0

        def report(done: int, _of: int) -> None:
            nonlocal done_before
            advance(done - done_before)
            done_before = done

        return case_of(trace, model.towers[Task.RUN], processors=processors, first=first, progress=report)
