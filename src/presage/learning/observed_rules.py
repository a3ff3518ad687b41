"""Rules that read what an environment shows of the queue, and how a way to choose does on fixed episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.environments import FEATURES, BatchOrderVector
from presage.environments.batch_order import SLOTS
from presage.policies.queue_scorer import AGEING_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.environments import Workload

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Seen = NDArray[np.float32]
    Choose = Callable[[Seen, Mask], NDArray[np.int64]]
    """Observations (moments, slots, features) and what may be chosen → a slot for each moment."""

LOG_SCALE = 16.0
"""Times are observed as logarithms of seconds over this."""
SHORTEST_S = 10.0
_PLACE = {name: place for place, name in enumerate(FEATURES)}


def _first_come(seen: Seen) -> Floats:
    return np.broadcast_to(np.arange(seen.shape[1], dtype=np.float64), seen.shape[:2])


def _shortest(seen: Seen) -> Floats:
    return seen[..., _PLACE["estimate"]].astype(np.float64)


def _smallest_area(seen: Seen) -> Floats:
    return seen[..., _PLACE["area"]].astype(np.float64)


def _index(seen: Seen) -> Floats:
    """Return the logarithm of r x max(r, 10 s) x √p / (1 + w / 4 h)²: the fixed index if only r is known."""
    estimate_s, waited_s = (
        np.expm1(LOG_SCALE * seen[..., _PLACE[name]].astype(np.float64)) for name in ("estimate", "waited")
    )
    share = np.maximum(seen[..., _PLACE["size"]].astype(np.float64), 1e-9)
    runs = np.log(np.maximum(estimate_s, 1.0)) + np.log(np.maximum(estimate_s, SHORTEST_S))
    scores: Floats = runs + np.log(share) / 2 - 2 * np.log1p(waited_s / AGEING_S)
    return scores


RULES: dict[str, Callable[[Seen], Floats]] = {
    "fcfs": _first_come,
    "sjf": _shortest,
    "saf": _smallest_area,
    "index": _index,
}
"""Scores of what is observed: the lowest goes first, of equals who came first."""


def choose_by(rule: str) -> Choose:
    """Return the way to choose of one of `RULES`."""
    score = RULES[rule]
    return lambda seen, mask: np.where(mask, score(seen), np.inf).argmin(1)


@dataclass(frozen=True)
class Played:
    """Episodes that were played to their ends."""

    slowdowns: Floats
    """The mean bounded slowdown of each episode."""
    decisions: int

    @property
    def slowdown(self) -> float:
        """The mean over the episodes."""
        return float(self.slowdowns.mean())

    def ratio_to(self, other: Played) -> float:
        """Return the geometric mean of the ratios to the same episodes played in another way."""
        return float(np.exp(np.log(self.slowdowns / other.slowdowns).mean()))


def play(choose: Choose, workload: Workload, episodes: int, *, seed: int = 0, slots: int = SLOTS) -> Played:
    """Play so many episodes to their ends; the same seed gives the same ones."""
    vector = BatchOrderVector(workload, episodes, slots=slots, autoreset=False)
    seen, infos = vector.reset(seed=seed)
    slowdowns, decisions = np.full(episodes, np.nan), 0
    going = np.ones(episodes, np.bool_)
    while going.any():
        actions = np.zeros(episodes, np.int64)
        actions[going] = choose(seen[going], infos["action_mask"][going])
        decisions += int(going.sum())
        seen, _, done, _, infos = vector.step(actions)
        if "final_info" in infos:
            ended = infos["_final_info"]
            slowdowns[ended] = infos["final_info"]["mean_bounded_slowdown"][ended]
        going = ~done
    return Played(slowdowns, decisions)
