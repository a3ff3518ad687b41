"""A policy learned by reinforcement that runs wherever one found by search does. Learning it needs the extra `rl`.

What PPO trains is a scorer of a kind that the engine runs, in episodes that go pass by pass as the engine does: so
the policy needs no torch and chooses what the network chose. It begins as a scorer that is known to be good, by
which rewards are measured. Episodes are windows, which hide starvation; so each round is also judged by whole
runs, as candidates of a search are, and the best round is kept, be it the one before the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.environments import Mixed
from presage.errors import UsageError
from presage.learning import _needs
from presage.learning.case_windows import JOBS, CaseWindows
from presage.learning.search import KINDS, Goal, Search
from presage.policies.queue_scorer import GUARDS, Guard, QueueScorer
from presage.simulator.guided import Decider

try:
    import torch

    from presage.learning._passes import ScoredOrder
    from presage.learning.imitation import become_sure, foresee, moments_of
    from presage.learning.networks import ScorerNetwork
    from presage.learning.reinforcement import PpoSettings, Training, as_known, run_training
except ModuleNotFoundError as missing:
    raise _needs.told(missing) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from presage.learning.cases import Case
    from presage.learning.event_files import EventFile
    from presage.learning.networks import ChoosingNetwork

WHOLE_RUNS = "whole_runs"
"""The number of the curve by which a round is kept: what a search calls the cost of a candidate."""
DEFAULT_PPO = PpoSettings(imitated=4_000, rate=3e-3)
_OF_OTHER_NETWORKS = ("imitate", "slots", "width", "heads")


@dataclass(frozen=True)
class ScorerSettings:
    """What is learned, from where on, and how long."""

    kind: str = "attention"
    """One of `KINDS`."""
    units: int = 8
    """Hidden units, for the kinds that have them; at least those of the scorer to begin as."""
    begin: QueueScorer = field(default_factory=QueueScorer)
    sureness: float = 0.7
    """How likely it is in the beginning, in the mean, to choose what the scorer to begin as would."""
    jobs: int = JOBS
    """The jobs of an episode, or all that there are."""
    guard: Guard = GUARDS["A"]
    ppo: PpoSettings = field(default_factory=lambda: DEFAULT_PPO)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"There is no scorer of kind {self.kind!r}", expected=f"one of {', '.join(KINDS)}")
        if not 0 < self.sureness < 1 or self.units < 1 or self.jobs < 2:
            raise UsageError(
                f"{self.units} units, {self.sureness} sure, learn nothing from episodes of {self.jobs} jobs",
                expected="at least 1 unit, a probability between 0 and 1, and at least 2 jobs",
            )


@dataclass(frozen=True)
class Learned:
    """What a training came to."""

    scorer: QueueScorer
    cost: float
    """In whole runs of the cases, as of a search: 0 is the fixed index."""
    decisions: int
    """Of the whole training."""
    kept_after: int
    """Decisions until the round that is kept."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """One entry per round; the first is from before the first round."""
    interrupted: bool = False


def train_scorer(
    cases: Sequence[Case],
    settings: ScorerSettings | None = None,
    *,
    folder: Path | None = None,
    log: EventFile | None = None,
    progress: Callable[[int, int, dict[str, Any]], None] | None = None,
) -> Learned:
    """Return the scorer of the best round of PPO on windows of the cases, each case as often as any other.

    With a `folder` a training that was cut off goes on behind its last whole round, to the very same end; Ctrl-C
    ends it with what it has learned. `log` is told the curve; `progress` the decisions made and to be made, and
    the line of the curve. Raises InputError for the folder of another training.
    """
    settings = settings or ScorerSettings()
    if not cases:
        raise UsageError("There is nothing to learn on", expected="at least one case")
    ppo = settings.ppo
    torch.set_num_threads(1)  # the products are small
    torch.manual_seed(ppo.seed)
    network = ScorerNetwork(settings.kind, settings.units, settings.begin)
    workload = Mixed([CaseWindows(case, min(settings.jobs, len(case))) for case in cases])
    vector = ScoredOrder(workload, ppo.machines, measured_by=Decider(settings.begin, settings.guard))
    search = Search(guard=settings.guard)
    goals = [Goal.of(case, settings.guard) for case in cases]

    def begin() -> dict[str, Any]:
        moments = moments_of(vector, network.choose, ppo.imitated, ppo.seed, ppo.discount)
        become_sure(network, moments, settings.sureness)
        return {"imitated": len(moments), "foreseen": foresee(network, moments, ppo.passes, ppo.seed)}

    def judge(now: ChoosingNetwork) -> dict[str, float]:
        scorer = now.scorer()
        return {WHOLE_RUNS: float(np.mean([goal.cost(scorer, search) for goal in goals]))}

    training = Training(
        network, vector, ppo, _about(settings, network, cases), begin,
        judge=judge, lowest=WHOLE_RUNS, folder=folder, log=log,
    )  # fmt: skip
    trained = run_training(training, ppo.decisions, progress)
    kept = training.kept_line
    return Learned(
        network.scorer(), kept.get(WHOLE_RUNS, 0.0), training.decisions, kept.get("decisions", 0), trained.curve,
        trained.interrupted,
    )  # fmt: skip


def check_beginning(kind: str, begin: QueueScorer) -> None:
    """Raise UsageError if a scorer of a kind cannot begin as another one."""
    ScorerNetwork(kind, begin=begin)


def _about(settings: ScorerSettings, network: ScorerNetwork, cases: Sequence[Case]) -> dict[str, Any]:
    """Return by what a training is known again."""
    ppo = {name: value for name, value in as_known(settings.ppo).items() if name not in _OF_OTHER_NETWORKS}
    begin = settings.begin
    return {
        "ppo": ppo, "network": network.shape, "sureness": settings.sureness, "guard": vars(settings.guard),
        "begin": [each.tolist() for each in (begin.weights, begin.hidden, begin.out, begin.attention)],
        "jobs": settings.jobs, "cases": [case.marks() for case in cases],
    }  # fmt: skip
