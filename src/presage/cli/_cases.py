"""Logs with forecasts, for commands that order queues by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.cli._output import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.foundation.model import Model, Tower
    from presage.learning.cases import Case
    from presage.traces import Trace


def forecast_case(
    trace: Trace, model: Model, *, processors: int | None, first: float = 0.0, relearn_at: Sequence[float] = ()
) -> Case:
    """Return the jobs of a trace from a share of it on, each forecast as it was submitted.

    From each share to `relearn_at` on, the first of which is `first`, the model is fine-tuned on what came before.
    """
    from presage.foundation.view.tasks import Task
    from presage.learning.cases import case_of
    from presage.learning.relearning import relearn_runs

    tower: Tower | dict[int, Tower] = model.towers[Task.RUN]
    if relearn_at:
        with progress("fine-tuning", 1.0) as advance:
            tower = relearn_runs(trace, model, relearn_at, on_progress=advance)
    with progress("forecasting", len(trace) * (1 - first)) as advance:
        done_before = 0

        def report(done: int, _of: int) -> None:
            nonlocal done_before
            advance(done - done_before)
            done_before = done

        return case_of(trace, tower, processors=processors, first=first, progress=report)
