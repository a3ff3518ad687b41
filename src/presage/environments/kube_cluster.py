"""Which pending gang of pods is admitted next, on a cluster whose nodes fail: `presage/KubeCluster-v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.environments import _placing
from presage.environments._nodes import NodesVector, default_workload
from presage.environments._vector import SingleMachine
from presage.simulator import node_choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from presage.environments.node_workloads import NodeWorkload
    from presage.environments.objectives import Objective

SLOTS = 64


class KubeClusterVector(NodesVector):
    """Many clusters in one compiled call.

    A gang is a job of equal pods that start together or not at all. Somebody chooses, among the gangs that have
    waited longest and fit, which is admitted; its pods go to the nodes with the least left over (best-fit). The
    last action stands for nobody: then all wait until the next event. It is possible as long as something will
    happen. When a node fails, the gangs with a pod on it are killed whole and wait again behind all others; what
    their starts cost comes back.

    Gangs with an override are not chosen: they stand first in the queue and start as soon as they fit. While the
    first of them does not fit, there is a reservation for it at the first planned end at which it would, and only
    gangs that are planned to end by then may be admitted.

    Observations are (clusters, slots, features), see `KUBE_FEATURES`; rewards, episodes and infos are as in
    `PlacementVector`. Whoever always admits the first gang that fits makes the schedule of `fcfs+skip@best-fit`.
    """

    def __init__(
        self,
        workload: NodeWorkload | None = None,
        num_envs: int = 64,
        *,
        slots: int = SLOTS,
        objective: str | Objective = "response",
        autoreset: bool = True,
    ) -> None:
        super().__init__(
            default_workload(workload), num_envs, observed=(slots, len(_placing.KUBE_FEATURES)), actions=slots + 1,
            slots=slots, objective=objective, autoreset=autoreset,
        )  # fmt: skip

    def _start(self, at: int, jobs: int, changes: int) -> bool:
        arrays = (self._clusters, self._machine)
        if not node_choices.begin_admitting(*arrays, self._typical, at, jobs, changes):
            return False
        _placing.observe_gangs(*arrays, self._known, at, self._seen[at], self._mask[at])
        return True

    def _follow(self, actions: NDArray[np.int64]) -> None:
        _placing.step_admitting(
            self._clusters, self._machine, self._typical, self._known, actions, self._seen, self._mask,
            self._costs, self._done,
        )  # fmt: skip


class KubeCluster(SingleMachine):
    """One cluster; see `KubeClusterVector` for what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says which gangs may be admitted. When an episode is over, `info`
    has the metrics of its schedule.
    """

    kind = KubeClusterVector
