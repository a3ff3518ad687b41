"""Who is backfilled behind the first job of a queue: `presage/Backfill-v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.environments import _observing
from presage.environments._queues import QueuesVector, overridden
from presage.environments._vector import SingleMachine
from presage.environments.batch_order import SLOTS
from presage.errors import UsageError
from presage.policies import ORDERS, StaticOrder
from presage.simulator import _moments, choices
from presage.simulator.pooled import job_view, ranked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.environments.objectives import Objective
    from presage.environments.workloads import Episode, Workload


class BackfillVector(QueuesVector):
    """Many machines in one compiled call.

    The queue goes by a rule, `order`. Where its first job does not fit, that job gets a reservation (EASY), and
    somebody chooses among the jobs that do not delay it, one after the other. The last action stands for nobody:
    what is free then stays idle until the next event. Whoever always chooses the first that may be chosen makes
    the schedule of the rule with EASY backfilling; whoever always says nobody, that of the rule without any.

    Observations are (machines, slots, features), the queue in its order with the first job on top; rewards,
    failures and overrides are those of `BatchOrderVector`, and jobs with an override stand first in the queue.
    """

    def __init__(
        self,
        workload: Workload | None = None,
        num_envs: int = 64,
        *,
        order: str = "fcfs",
        slots: int = SLOTS,
        objective: str | Objective = "bounded_slowdown",
        autoreset: bool = True,
    ) -> None:
        rule = ORDERS.get(order)()
        if not isinstance(rule, StaticOrder):
            raise UsageError(
                f"The order {order!r} changes while jobs wait",
                expected="an order whose scores never change, like fcfs, sjf or saf",
            )
        self._order = rule
        super().__init__(
            workload, num_envs, slots=slots, features=len(_observing.BACKFILL_FEATURES), actions=slots + 1,
            objective=objective, rules=(_moments.RANKED, choices.BY_CHOICE), autoreset=autoreset,
        )  # fmt: skip

    def _ranks(self, episode: Episode) -> NDArray[np.int64]:
        scores = self._order.scores(job_view(episode.jobs))
        return overridden(ranked(scores)[1], episode)

    def _observe(self, at: int) -> None:
        _observing.observe_behind(self._machines, self._known, at, self._seen[at], self._mask[at])

    def _follow(self, actions: NDArray[np.int64]) -> None:
        _observing.step_all_behind(
            self._machines, self._known, actions, self._seen, self._mask, self._costs, self._done
        )


class Backfill(SingleMachine):
    """One machine; see `BackfillVector` for what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says which slots may be chosen; nobody always may. When an
    episode is over, `info` has the metrics of its schedule.
    """

    kind = BackfillVector
