"""Which waiting job goes next, on a machine with pooled processors: `presage/BatchOrder-v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.environments import _observing
from presage.environments._queues import QueuesVector
from presage.environments._vector import SingleMachine
from presage.errors import UsageError
from presage.simulator import _moments, choices

if TYPE_CHECKING:
    from presage.environments.objectives import Objective
    from presage.environments.workloads import Workload

SEMANTICS = {"standard": _moments.STANDARD, "commit": _moments.COMMIT}
BACKFILL = {"none": choices.NONE, "arrival": choices.BY_ARRIVAL, "order": choices.BY_CHOICE}
"""Which jobs may start before the chosen one that does not fit: none, those that came first, those chosen next."""
SLOTS = 128


class BatchOrderVector(QueuesVector):
    """Many machines in one compiled call.

    Observations are (machines, slots, features): what is seen of the jobs that have waited longest, in the order
    in which they came; rows without a job are zero. `infos["action_mask"]` says which may be chosen. An episode
    begins on an empty machine and is over when its last job has started; the machine then begins the next one
    within the same step, and `infos["final_info"]` tells how the schedule was: metrics by name, NaN where none
    ended; also `kills`, `overrides` and `override_wait_s`.

    The reward of a step is that of the jobs that started in it, as shares of the episode: the sum over an episode
    is the objective's value of the whole schedule. Where a job is killed because processors fail, what its start
    cost comes back, and the job waits again behind all others. Jobs with an override are not chosen: they go
    before all others.
    """

    def __init__(
        self,
        workload: Workload | None = None,
        num_envs: int = 64,
        *,
        slots: int = SLOTS,
        objective: str | Objective = "bounded_slowdown",
        semantics: str = "standard",
        backfill: str | None = None,
        autoreset: bool = True,
    ) -> None:
        if semantics not in SEMANTICS:
            raise UsageError(f"There are no semantics {semantics!r}", expected=f"one of {', '.join(SEMANTICS)}")
        backfill = backfill or ("order" if semantics == "standard" else "arrival")
        if backfill not in BACKFILL or (semantics == "commit" and backfill == "order"):
            raise UsageError(
                f"The semantics {semantics!r} have no backfilling {backfill!r}",
                expected="none, arrival, or under the standard semantics order",
            )
        rules = (SEMANTICS[semantics], BACKFILL[backfill])
        super().__init__(
            workload, num_envs, slots=slots, features=len(_observing.FEATURES), actions=slots,
            objective=objective, rules=rules, autoreset=autoreset,
        )  # fmt: skip


class BatchOrder(SingleMachine):
    """One machine; see `BatchOrderVector` for what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says which slots may be chosen. When an episode is over, `info`
    has the metrics of its schedule.
    """

    kind = BatchOrderVector
