"""Formulas that order a queue and can be read: products of powers.

Symbols, in seconds: r the mean of the forecast run, t the typical run, which is the inverse of the mean of
1 / max(run, 10 s), q the request, w the wait so far; p processors. The lowest value goes first. A job ages by
(1 + w/4h), with 4h = four hours, or in proportion to its own length by (1 + w/t).

The logarithm of a product of powers is a weighted sum of what a `QueueScorer` reads, so a formula is exactly a
scorer without hidden units, and the engine runs it as it is. Sums of products, and ageing at another pace, are
not; they are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UsageError
from presage.policies.queue_scorer import OF_THE_JOB, QueueScorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FACTORS = {
    "r": "log_expected_run",
    "t": "log_typical_run",
    "q": "log_requested",
    "p": "log_processors",
    "(1 + w/4h)": "log_waited",
    "(1 + w/t)": "log_expected_slowdown",
}
"""What a formula may multiply, and the logarithm of it that a scorer reads."""
READS = np.array([OF_THE_JOB.index(name) for name in FACTORS.values()])
"""Where a scorer reads the factors."""
_RAISED = {2.0: "²", 3.0: "³"}
_TOKEN = re.compile(r"([·*/]?)(√?)(r|t|q|p|\(1\+w/(?:4h|t)\))(²|³|\^-?\d+(?:\.\d+)?)?")


@dataclass(frozen=True)
class Formula:
    """A product of powers of `FACTORS`, like r·t·√p / (1 + w/4h)²."""

    powers: tuple[float, ...]
    """One for each of `FACTORS`; 0 where it does not occur."""

    def __str__(self) -> str:
        above = [_raised(name, power) for name, power in zip(FACTORS, self.powers, strict=True) if power > 0]
        below = [_raised(name, -power) for name, power in zip(FACTORS, self.powers, strict=True) if power < 0]
        return " / ".join(["·".join(above) or "1", *below])

    def __len__(self) -> int:
        """How many factors occur."""
        return sum(power != 0 for power in self.powers)

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Return the formula that a text says, as it is printed or with * for ·. Raises UsageError for others."""
        bare = "".join(text.split())
        names, powers = [name.replace(" ", "") for name in FACTORS], [0.0] * len(FACTORS)
        at = int(bare.startswith("1"))
        while token := _TOKEN.match(bare, at):
            sign, root, name, raised = token.groups()
            # A sign stands between two factors, or between the 1 and a factor.
            if bool(sign) != (at > 0):
                break
            power = (0.5 if root else 1.0) * _power_of(raised)
            powers[names.index(name)] += -power if sign == "/" else power
            at = token.end()
        if at < len(bare) or not bare:
            raise UsageError(
                f"{text!r} is no formula: it cannot be read from {bare[at:]!r} on",
                expected=f"powers of {', '.join(FACTORS)}, joined by · or /, like r·√p / (1 + w/4h)²",
            )
        return cls(tuple(powers))

    def scorer(self) -> QueueScorer:
        """Return the scorer that orders as the formula does."""
        weights = np.zeros(len(OF_THE_JOB))
        weights[READS] = self.powers
        return QueueScorer(weights)


def _raised(name: str, power: float) -> str:
    if power == 1:
        return name
    return f"√{name}" if power == 0.5 else name + _RAISED.get(power, f"^{power:g}")


def _power_of(raised: str | None) -> float:
    if raised is None:
        return 1.0
    return (
        float(raised[1:]) if raised.startswith("^") else next(k for k, sign in _RAISED.items() if sign == raised)
    )
