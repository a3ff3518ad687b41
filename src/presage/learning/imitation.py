"""A network learns to choose as somebody else does, and what an episode then comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from presage.learning.observed_rules import choose_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments import BatchOrderVector
    from presage.learning.networks import QueueNetwork, ScorerNetwork
    from presage.learning.observed_rules import Choose

BATCH = 64
RATE = 1e-2
VALUE_RATE = 3e-3
VALUE_PRICE = 0.5
_HALVINGS = 40


@dataclass(frozen=True)
class Moments:
    """Moments of episodes in which somebody chose."""

    seen: NDArray[np.float32]
    mask: NDArray[np.bool_]
    chosen: NDArray[np.int64]
    to_come: NDArray[np.float32]
    """The rewards from this moment on, later ones discounted."""

    def __len__(self) -> int:
        return len(self.chosen)


def moments_of(
    vector: BatchOrderVector, by: str | Choose, decisions: int, seed: int, discount: float = 1.0
) -> Moments:
    """Return at least so many moments of whole episodes on machines that begin anew by themselves.

    `by` is the name of a rule, or a way to choose.
    """
    choose = choose_by(by) if isinstance(by, str) else by
    seen, infos = vector.reset(seed=seed)
    rows: list[tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]] = []
    rewards, ends, whole_until = [], [], np.zeros(vector.num_envs, np.int64)
    while whole_until.sum() < decisions:
        actions = choose(seen, infos["action_mask"])
        rows.append((seen, infos["action_mask"], actions))
        seen, reward, done, _, infos = vector.step(actions)
        rewards.append(reward)
        ends.append(done)
        whole_until[done] = len(ends)
    to_come, whole = _sums(np.stack(rewards), np.stack(ends), discount)
    seen, mask, chosen = (np.stack(part)[whole] for part in zip(*rows, strict=True))
    return Moments(seen, mask, chosen, to_come[whole].astype(np.float32))


def _sums(
    rewards: NDArray[np.float64], ends: NDArray[np.bool_], discount: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the rewards up to the end of each episode, and which moments belong to one that has an end."""
    sums, whole = np.zeros_like(rewards), np.zeros_like(ends)
    total, has_end = np.zeros(rewards.shape[1]), np.zeros(rewards.shape[1], np.bool_)
    for at in range(len(rewards) - 1, -1, -1):
        total = rewards[at] + np.where(ends[at], 0.0, discount * total)
        has_end |= ends[at]
        sums[at], whole[at] = total, has_end
    return sums, whole


def imitate(network: QueueNetwork, moments: Moments, passes: int, seed: int) -> float:
    """Train a network on what a rule chose; return the share of moments in which both choose alike."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for part in range(passes):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - part / passes)
        for rows in np.array_split(rng.permutation(len(moments)), max(1, len(moments) // BATCH)):
            logits, value = network(torch.from_numpy(moments.seen[rows]))
            logits = logits.masked_fill(~torch.from_numpy(moments.mask[rows]), -1e8)
            loss = functional.cross_entropy(logits, torch.from_numpy(moments.chosen[rows]))
            loss = loss + VALUE_PRICE * functional.mse_loss(value[:, 0], torch.from_numpy(moments.to_come[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    alike = network.choose(moments.seen, moments.mask) == moments.chosen
    return float(alike.mean())


def become_sure(network: ScorerNetwork, moments: Moments, sureness: float) -> None:
    """Make a network choose what was chosen with a probability that is `sureness` in the mean."""
    with torch.no_grad():
        logits = torch.cat([network(part)[0] for part in torch.from_numpy(moments.seen).split(BATCH)])
        logits = logits.masked_fill(~torch.from_numpy(moments.mask), -torch.inf)
        logits = logits - logits.max(1, keepdim=True).values
        low, high = -5.0, 8.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            chances = (logits * np.exp(middle)).softmax(1)
            chosen = chances.gather(1, torch.from_numpy(moments.chosen)[:, None]).mean()
            low, high = (middle, high) if chosen < sureness else (low, middle)
        network.log_sharpness += middle


def foresee(network: ScorerNetwork, moments: Moments, passes: int, seed: int) -> float:
    """Teach a network what is to come, not what to choose; return the share of it that it explains."""
    rng = np.random.default_rng(seed)
    learned = [*network.read.parameters(), *network.value.parameters()]
    optimizer = torch.optim.Adam(learned, lr=VALUE_RATE)
    for _ in range(passes):
        for rows in np.array_split(rng.permutation(len(moments)), max(1, len(moments) // BATCH)):
            value = network(torch.from_numpy(moments.seen[rows]))[1][:, 0]
            loss = functional.mse_loss(value, torch.from_numpy(moments.to_come[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        expected = torch.cat([network(part)[1][:, 0] for part in torch.from_numpy(moments.seen).split(BATCH)])
    return 1 - float(np.var(moments.to_come - expected.numpy()) / max(np.var(moments.to_come), 1e-12))
