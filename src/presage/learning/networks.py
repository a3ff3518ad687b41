"""A network that says who of a queue goes next, whatever the length of the queue.

Dimensions: B moments, S slots of the queue, F what is observed of a job, W width, H heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from presage.environments import FEATURES

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


class QueueNetwork(nn.Module):
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

    def choose(self, seen: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the slot with the highest logit of those that may be chosen, one for each moment."""
        with torch.no_grad():
            logits, _ = self(torch.from_numpy(seen))
        chosen: NDArray[np.int64] = np.where(mask, logits.numpy(), -np.inf).argmax(1)
        return chosen


def copy_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that further training does not change."""
    return {name: value.detach().clone() for name, value in state.items()}
