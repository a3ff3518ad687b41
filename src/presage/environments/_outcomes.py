"""What is told of an episode of jobs when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.simulator.metrics import measure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.environments.objectives import Objective
    from presage.environments.workloads import Episode


def outcome(
    objective: Objective, episode: Episode, start_ms: NDArray[np.int64], kills: int
) -> tuple[float, dict[str, float]]:
    """Return what the end of an episode adds to the reward, and what is told of it.

    That are the metrics of the schedule; `kills`, how often a job was killed because something failed; and of the
    jobs with an override `overrides`, how many there were, and `override_wait_s`, their mean wait, 0 if none.
    """
    told = dict(vars(measure(episode.jobs, start_ms, episode.processors)))
    wait_ms = (start_ms - episode.jobs.submit_ms)[episode.override if episode.override is not None else []]
    told |= {
        "kills": float(kills),
        "overrides": float(len(wait_ms)),
        "override_wait_s": float(wait_ms.mean()) / 1000 if len(wait_ms) else 0.0,
    }
    return objective.bonus(episode, start_ms), told
