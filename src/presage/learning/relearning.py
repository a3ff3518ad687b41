"""Networks that learn a log as it goes by: later jobs are forecast by one that was fine-tuned on earlier ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.foundation.model import Model, Tower
    from presage.traces import Trace


def relearn_runs(
    trace: Trace,
    model: Model,
    shares: Sequence[float],
    *,
    seed: int = 0,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> dict[int, Tower]:
    """Return a network for run times for each share of a log, under the number of the first job behind it.

    Each is the model's own, fine-tuned on what was known when that job was submitted; it stays as it is where that
    does not help. Raises InputError if too few jobs ended before the first share, and MissingDependencyError
    without torch.
    """
    from presage.foundation.requirements import require_torch

    require_torch()
    from presage.foundation.training.adapting import adapt

    own = replace(model, towers={Task.RUN: model.towers[Task.RUN]})
    towers = {}
    for share in shares:
        at = int(share * len(trace))
        adapted = adapt(
            trace, own, seed=seed, only=Task.RUN, until_ms=int(trace.jobs["submit_ms"][at]),
            on_progress=lambda part: on_progress(part / len(shares)),
        )  # fmt: skip
        towers[at] = adapted.model.towers[Task.RUN]
    return towers
