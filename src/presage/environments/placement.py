"""On which node the next member of a job goes, on a cluster of nodes with GPUs: `presage/Placement-v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.environments import _placing
from presage.environments._nodes import NodesVector, default_workload
from presage.environments._vector import SingleMachine
from presage.errors import UsageError
from presage.simulator import node_choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.environments.node_workloads import NodeWorkload
    from presage.environments.objectives import Objective

BACKFILL = {"none": node_choices.NONE, "skip": node_choices.SKIP}
"""Whether later jobs may start before one that does not fit: not at all, or always."""


class PlacementVector(NodesVector):
    """Many clusters in one compiled call.

    Jobs come in the order of their submits. One starts when all its members can; they are placed one after the
    other, and an action is the node of the next member, where more than one has room. A share of a GPU goes to the
    GPU of that node with the least left that is enough; whole GPUs are the first free ones. Whoever chooses by a
    rule of `presage.policies.PLACEMENTS` that goes by nodes makes the schedule of `simulate_placed` with that
    rule.

    Observations are (clusters, nodes, features), see `PLACEMENT_FEATURES`; `infos["action_mask"]` says which nodes
    have room. The reward of a step is that of the jobs that started in it, as shares of the episode: the sum over
    an episode is the objective's value of the whole schedule, less `fragmentation_price` times the mean, over the
    starts, of the share of the free GPUs that a typical task cannot use. Utilisation and sizes count GPUs if any
    job wants GPUs. When a node fails, the jobs on it are killed and wait again behind all others; what their
    starts cost comes back. Jobs with an override stand first in the queue; with `backfill="skip"` others pass one
    that does not fit only if they are planned to end before it would. Episodes, infos and their ends are as in
    `BatchOrderVector`.
    """

    def __init__(
        self,
        workload: NodeWorkload | None = None,
        num_envs: int = 64,
        *,
        objective: str | Objective = "response",
        backfill: str = "none",
        fragmentation_price: float = 0.0,
        autoreset: bool = True,
    ) -> None:
        if backfill not in BACKFILL:
            raise UsageError(
                f"There is no backfilling {backfill!r} where nodes are chosen",
                expected=f"one of {', '.join(BACKFILL)}",
            )
        self._backfilling = BACKFILL[backfill]
        workload = default_workload(workload)
        observed = (len(workload.nodes), len(_placing.PLACEMENT_FEATURES))
        super().__init__(
            workload, num_envs, observed=observed, actions=observed[0], slots=0, objective=objective,
            autoreset=autoreset,
        )  # fmt: skip
        self._clusters.prices[-1] = fragmentation_price

    def _start(self, at: int, jobs: int, changes: int) -> bool:
        arrays = (self._clusters, self._machine)
        if not node_choices.begin_placing(*arrays, self._typical, at, jobs, changes, self._backfilling):
            return False
        _placing.observe_nodes(*arrays, self._known, at, self._seen[at], self._mask[at])
        return True

    def _follow(self, actions: NDArray[np.int64]) -> None:
        _placing.step_placing(
            self._clusters, self._machine, self._typical, self._known, actions, self._backfilling, self._seen,
            self._mask, self._costs, self._done,
        )  # fmt: skip


class Placement(SingleMachine):
    """One cluster; see `PlacementVector` for what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says which nodes may be chosen. When an episode is over, `info`
    has the metrics of its schedule.
    """

    kind = PlacementVector
