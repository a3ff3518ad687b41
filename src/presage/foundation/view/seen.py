"""What the model sees of some questions of one task, ready for the network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ANCHOR = {Task.WAIT: numbers.PLACE["wait_anchor"], Task.RUN: numbers.PLACE["work_anchor"]}

DURATIONS = np.array([numbers.PLACE[name] for name in numbers.DURATIONS])
TOKEN_DURATIONS = np.array([numbers.TOKEN.index(name) for name in numbers.TOKEN_DURATIONS])


def _stretched(logs: Floats, factors: Floats) -> Floats:
    """Return log(1 + s) of the seconds times a factor; what is below 0 says that there are none."""
    return np.where(logs >= 0, np.log1p(np.expm1(np.maximum(logs, 0)) * factors), logs).astype(np.float32)


@dataclass(frozen=True)
class Seen:
    """B questions, each with K places for earlier jobs."""

    task: Task
    x: Floats
    """(B, numbers)"""
    anchor: Floats
    """(B,): where an answer starts from, in log seconds"""
    tokens: Floats
    """(B, K, token)"""
    present: NDArray[np.bool_]
    """(B, K): which places are taken"""
    outcomes: Floats
    """(B, K): log seconds that the earlier jobs waited or ran, so far"""
    ends: NDArray[np.int32]
    """(B, K): how they ended, -1 if that is not known"""
    age_s: NDArray[np.float64]
    """(B,): how long the job has waited or run already; 0 if it is only submitted now"""

    def age_numbers(self) -> Floats:
        """Return whether jobs are asked about after some time, and after how long: (B, 2)."""
        return np.stack([self.age_s > 0, np.log1p(self.age_s) / 8], 1).astype(np.float32)

    def stretched(self, factors: Floats) -> Seen:
        """Return what would have been seen if the clock of each question had run at another speed (B,)."""
        x = self.x.copy()
        durations = DURATIONS[x.shape[1] > DURATIONS]
        x[:, durations] = _stretched(x[:, durations], factors[:, None])
        outcomes = _stretched(self.outcomes, factors[:, None])
        tokens = self.tokens.copy()
        tokens[:, :, TOKEN_DURATIONS] = _stretched(8 * tokens[:, :, TOKEN_DURATIONS], factors[:, None, None]) / 8
        anchor = _stretched(self.anchor, factors)
        tokens[:, :, 0] = (outcomes - anchor[:, None]) / 2
        return replace(
            self,
            x=x,
            anchor=anchor,
            tokens=tokens,
            outcomes=outcomes,
            age_s=self.age_s * factors.astype(np.float64),
        )

    def twice(self, x: Floats) -> Seen:
        """Return the questions one after another twice, with numbers (2 B, numbers) of their own."""
        fields = (self.anchor, self.tokens, self.present, self.outcomes, self.ends, self.age_s)
        anchor, tokens, present, outcomes, ends, age_s = (np.concatenate([each, each]) for each in fields)
        return Seen(self.task, x, anchor, tokens, present, outcomes, ends, age_s)

    def with_x(self, x: Floats) -> Seen:
        """Return the same with other numbers."""
        return replace(self, x=x)
