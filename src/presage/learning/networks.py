"""Networks that say who of a queue goes next, whatever the length of the queue.

Dimensions: B moments, S slots of the queue, J jobs of all moments, F what is observed of a job, W width, H heads,
U hidden units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from presage.environments import FEATURES
from presage.errors import UsageError
from presage.policies.queue_scorer import INPUTS, OF_THE_JOB, OF_THE_QUEUE, QueueScorer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

IS_THERE = FEATURES.index("is_there")
NEVER = -1e8
"""The logit of a slot without a job."""
INPUT_SCALE = 4.0
"""What is observed lies mostly between 0 and 1, close together; wider apart it is learned faster."""

POWER = 8.0
"""The weights of two jobs in an attention differ by at most e to twice this."""


READS = (*OF_THE_JOB, *OF_THE_QUEUE, "is_there", "still_waits")
"""What a `ScorerNetwork` sees of each job that waited when a pass began; those that have started since do not wait
any more."""
ROW_IS_THERE, STILL_WAITS = READS.index("is_there"), READS.index("still_waits")
JOBS, BOTH = len(OF_THE_JOB), len(OF_THE_JOB) + len(OF_THE_QUEUE)
USUAL = {
    "log_expected_run": (8.0, 2.0), "log_typical_run": (7.0, 2.0), "log_requested": (9.0, 2.0),
    "log_processors": (2.0, 2.0), "share_of_machine": (0.1, 0.2), "log_waited": (0.5, 1.0),
    "log_expected_slowdown": (1.5, 2.0), "user_share": (0.2, 0.25), "fits": (0.5, 0.5),
    "log_waiting": (3.0, 1.5), "free_share": (0.3, 0.3), "log_backlog": (3.0, 1.5),
}  # fmt: skip
"""What the numbers mostly are, and how far apart: they are learned from in these units."""


class ChoosingNetwork(nn.Module, ABC):
    """A network that gives each slot a logit, and says what it expects of the rest of an episode."""

    shape: dict[str, Any]
    """What it was made with."""

    @abstractmethod
    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return a logit for each slot (B, S), and what is expected of the rest of the episode (B, 1)."""

    def choose(self, seen: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the slot with the highest logit of those that may be chosen, one for each moment."""
        with torch.no_grad():
            logits, _ = self(torch.from_numpy(seen))
        chosen: NDArray[np.int64] = np.where(mask, logits.numpy(), -np.inf).argmax(1)
        return chosen


class QueueNetwork(ChoosingNetwork):
    """Each job is read by the same small network; an attention over all of them tells each about the others.

    Jobs in other slots get the same logits there, and slots without a job change nothing.
    """

    def __init__(self, features: int = len(FEATURES), width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.shape = {"features": features, "width": width, "heads": heads}
        self.read = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.attend = nn.Linear(width, heads)
        self.tell = nn.Linear(width, width)
        self.own = nn.Linear(width, width)
        self.of_queue = nn.Linear(width, width)
        self.rank = nn.Linear(width, 1)
        self.straight = nn.Linear(features, 1, bias=False)
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        # Nobody is preferred until something is learned.
        for last in (self.rank, self.straight):
            nn.init.normal_(last.weight, std=0.01)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return a logit for each slot, and what is expected of the rest of the episode."""
        present = seen[..., IS_THERE] > 0  # (B, S)
        # Most slots are empty most of the time: only jobs are worked on, J in all moments together.
        moment = present.nonzero()[:, 0]  # (J)
        inputs = seen[present] * INPUT_SCALE  # (J, F)
        jobs = self.read(inputs)  # (J, W)
        queue = self._pooled(jobs, moment, len(seen))  # (B, W)
        hidden = torch.relu(self.own(jobs) + self.of_queue(queue)[moment])
        ranks = (self.rank(hidden) + self.straight(inputs))[:, 0]  # (J)
        logits = torch.full_like(seen[..., 0], NEVER).masked_scatter(present, ranks)  # (B, S)
        return logits, self.value(queue)

    def _pooled(self, jobs: Tensor, moment: Tensor, moments: int) -> Tensor:
        """Return means over the jobs of each moment, one per head, each with weights of its own."""
        width, heads = self.shape["width"], self.shape["heads"]
        # Bounded, so that no weight becomes zero or endless.
        power = torch.exp(POWER * torch.tanh(self.attend(jobs) / POWER))  # (J, H)
        total = torch.zeros(moments, heads).index_add(0, moment, power)  # (B, H)
        share = (power / total[moment]).repeat_interleave(width // heads, 1)  # (J, W)
        return torch.zeros(moments, width).index_add(0, moment, share * self.tell(jobs))


class ScorerNetwork(ChoosingNetwork):
    """A `QueueScorer` whose numbers can be learned; the lower the score, the higher the logit.

    It begins as a scorer, with hidden units that do not speak yet. Beside the scorer stands a network that says
    what is expected of the rest of the episode; only learning needs it. Raises UsageError if a scorer of this kind
    cannot be what it shall begin as.
    """

    def __init__(self, kind: str = "attention", units: int = 8, begin: QueueScorer | None = None) -> None:
        super().__init__()
        begin = begin or QueueScorer()
        units = 0 if kind == "linear" else max(units, len(begin.out))
        self.shape = {"kind": kind, "units": units}
        usual = torch.tensor([USUAL[name] for name in (*OF_THE_JOB, *OF_THE_QUEUE)])
        self.register_buffer("centre", usual[:, 0].clone())
        self.register_buffer("scale", usual[:, 1].clone())
        self.weights = nn.Parameter(torch.zeros(JOBS))
        self.hidden = nn.Parameter(torch.zeros(units, _read_by(kind)))
        self.offset = nn.Parameter(torch.zeros(units))
        self.out = nn.Parameter(torch.zeros(units))
        self.attention = nn.Parameter(torch.zeros(JOBS))
        nn.init.normal_(self.hidden, std=0.5)
        self.log_sharpness = nn.Parameter(torch.zeros(()))
        """How much likelier the lower score is: it is of no matter to the order."""
        self.read = nn.Sequential(nn.Linear(JOBS + 1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(32 + len(OF_THE_QUEUE), 32), nn.ReLU(), nn.Linear(32, 1))
        self._become(begin)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return a logit for each slot, and what is expected of the rest of the episode."""
        present = seen[..., ROW_IS_THERE] > 0  # (B, S)
        moment = present.nonzero()[:, 0]  # (J)
        reads = (seen[..., :BOTH] - self.centre) / self.scale  # (B, S, 12)
        jobs, of_queue = reads[present][:, :JOBS], reads[:, 0, JOBS:]  # (J, 9), (B, 3)
        score = jobs @ self.weights  # (J)
        if len(self.out):
            alike = torch.cat([of_queue, self._attended(reads[..., :JOBS], present)], 1)  # (B, 12)
            alike = alike[:, : self.hidden.shape[1] - JOBS] @ self.hidden[:, JOBS:].T + self.offset  # (B, U)
            score = score + torch.tanh(jobs @ self.hidden[:, :JOBS].T + alike[moment]) @ self.out
        logits = torch.full_like(seen[..., 0], NEVER)
        logits = logits.masked_scatter(present, -self.log_sharpness.exp() * score)  # (B, S)
        return logits, self._expected(jobs, seen[present][:, STILL_WAITS], moment, of_queue)

    def scorer(self) -> QueueScorer:
        """Return the scorer that it is by now."""
        values = {name: value.double().numpy() for name, value in self.state_dict().items()}
        centre, scale = values["centre"], values["scale"]
        read = values["hidden"].shape[1]
        # Means of the jobs' numbers have the jobs' units.
        centre, scale = (np.concatenate([each, each[:JOBS]])[:read] for each in (centre, scale))
        hidden = np.zeros((len(values["out"]), INPUTS + 1))
        hidden[:, :read] = values["hidden"] / scale
        hidden[:, -1] = values["offset"] - hidden[:, :read] @ centre
        of_jobs = values["scale"][:JOBS]
        return QueueScorer(values["weights"] / of_jobs, hidden, values["out"], values["attention"] / of_jobs)

    def _become(self, scorer: QueueScorer) -> None:
        units, read = len(scorer.out), self.hidden.shape[1]
        if units > len(self.out) or scorer.hidden[:, read:-1].any():
            raise UsageError(
                f"A policy of the kind {self.shape['kind']!r} cannot begin as one with {units} hidden units",
                remedy="Learn one of the kind attention",
            )
        with torch.no_grad():
            scale, centre = (torch.cat([each, each[:JOBS]])[:read] for each in (self.scale, self.centre))
            self.weights.copy_(torch.from_numpy(scorer.weights) * self.scale[:JOBS])
            self.attention.copy_(torch.from_numpy(scorer.attention) * self.scale[:JOBS])
            hidden = torch.from_numpy(scorer.hidden)
            self.hidden[:units] = (hidden[:, :read] * scale).float()
            self.offset[:units] = (hidden[:, -1] + hidden[:, :read] @ centre.double()).float()
            self.out[:units] = torch.from_numpy(scorer.out).float()

    def _attended(self, jobs: Tensor, present: Tensor) -> Tensor:
        """Return the mean of what is read of the jobs, each counting by the softmax of its attention."""
        power = (jobs @ self.attention).masked_fill(~present, NEVER)  # (B, S)
        return torch.einsum("bs,bsf->bf", power.softmax(1), jobs)

    def _expected(self, jobs: Tensor, still_waits: Tensor, moment: Tensor, of_queue: Tensor) -> Tensor:
        read = self.read(torch.cat([jobs, still_waits[:, None]], 1))  # (J, 32)
        count = torch.zeros(len(of_queue)).index_add(0, moment, torch.ones(len(jobs)))
        mean = torch.zeros(len(of_queue), 32).index_add(0, moment, read) / count.clamp(min=1)[:, None]  # (B, 32)
        return self.value(torch.cat([mean, of_queue], 1))


def _read_by(kind: str) -> int:
    """Return how much a hidden unit reads: only the kind `attention` reads means of the jobs."""
    return INPUTS if kind == "attention" else BOTH


def copy_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that further training does not change."""
    return {name: value.detach().clone() for name, value in state.items()}
