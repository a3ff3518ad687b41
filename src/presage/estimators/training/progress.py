"""How long a running training still needs: what was thought before it began, and the pace it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist, median

from presage.errors import UsageError
from presage.estimators.spread import Spread

_Z90 = NormalDist().inv_cdf(0.9)
_PAUSE = 3.0
"""A stretch this many times as slow as the usual one holds a pause: a validation, a checkpoint."""
_DRIFT = 0.02
"""How much the pace of the rest may differ from that of the past, however long that was, in logarithms."""
_ALONE = 0.25
"""Uncertainty of the pace that a single stretch shows, in logarithms."""


@dataclass
class Progress:
    """The pace of one training, event by event, over restarts.

    `prior` is the time that the whole of it was thought to take, `units` how many steps or epochs that is. The
    first stretch after a start, which holds the imports and the warming up, says nothing of the pace. A stretch
    that is much slower than usual holds a pause; pauses are expected to come as often in the rest.
    """

    prior: Spread
    units: float
    done: float = 0.0
    elapsed_s: float = 0.0
    """Since the last start."""
    restarts: int = 0
    _warm: bool = False
    _stretches: list[tuple[float, float]] = field(default_factory=list)
    """Units and seconds of each."""

    def __post_init__(self) -> None:
        if not 0 < self.units < math.inf:
            raise UsageError(f"A training of {self.units} steps cannot be followed", expected="more than 0 steps")

    def observe(self, done: float, elapsed_s: float) -> None:
        """Take an event: so much is done, so long after the last start.

        A clock or a count that goes back is a restart from a checkpoint. An event that tells no news is ignored.
        Raises UsageError for what is no number from 0 up.
        """
        if not (0 <= done < math.inf and 0 <= elapsed_s < math.inf):
            raise UsageError(
                f"{done} done after {elapsed_s} s is no progress", expected="two finite numbers from 0 up"
            )
        if elapsed_s < self.elapsed_s or done < self.done:
            self._restart(done, elapsed_s)
            return
        if done == self.done:
            return
        if self._warm:
            self._stretches.append((done - self.done, elapsed_s - self.elapsed_s))
        self._warm = True
        self.done, self.elapsed_s = done, elapsed_s

    def remaining(self, elapsed_s: float | None = None) -> Spread:
        """Return the seconds that are left, as of `elapsed_s` after the last start or else of the last event."""
        left = max(0.0, self.units - self.done)
        passed = max(0.0, (elapsed_s or 0.0) - self.elapsed_s)
        center, width = self._pace()
        usual = Spread.around(math.exp(center), math.exp(_Z90 * width)).times(left)
        whole = usual.plus(self._paused_s_per_unit() * left)
        return Spread(*(max(0.0, each - passed) for each in (whole.p10, whole.p50, whole.p90)))

    def _restart(self, done: float, elapsed_s: float) -> None:
        self.done, self.elapsed_s = done, elapsed_s
        self._warm = False
        self.restarts += 1

    def _pace(self) -> tuple[float, float]:
        """Return the seconds per unit, from prior and sight by their weight, and its doubt, in logarithms."""
        before = max(self.prior.p50 / self.units, 1e-12)
        doubt = max(abs(math.log(max(edge, 1e-12) / max(self.prior.p50, 1e-12))) for edge in self._edges()) / _Z90
        doubt = max(doubt, 1e-3)
        seen = self._seen()
        if seen is None:
            return math.log(before), doubt
        pace, width = seen
        trust = (1 / width**2) / (1 / width**2 + 1 / doubt**2)
        return trust * pace + (1 - trust) * math.log(before), 1 / math.hypot(1 / width, 1 / doubt)

    def _edges(self) -> tuple[float, float]:
        return self.prior.p10, self.prior.p90

    def _seen(self) -> tuple[float, float] | None:
        """Return the pace between pauses, in logarithms, with its uncertainty; None before there is any."""
        usual = self._usual()
        seconds = sum(each for _, each in usual)
        if seconds <= 0:
            return None
        pace = math.log(seconds / sum(units for units, _ in usual))
        if len(usual) == 1:
            return pace, _ALONE
        away = [math.log(max(each, 1e-12) / units) - pace for units, each in usual]
        scatter = math.sqrt(sum(each * each for each in away) / (len(away) - 1))
        alone = _ALONE / len(usual)  # few stretches that happen to agree prove little
        return pace, math.hypot(scatter / math.sqrt(len(away)), _DRIFT, alone)

    def _usual(self) -> list[tuple[float, float]]:
        limit = self._pause_limit()
        return [each for each in self._stretches if each[1] <= limit * each[0]]

    def _pause_limit(self) -> float:
        paces = [seconds / units for units, seconds in self._stretches]
        return _PAUSE * median(paces) if len(paces) > 2 else math.inf

    def _paused_s_per_unit(self) -> float:
        """Return what pauses add to a unit, on average over all that was seen."""
        limit = self._pause_limit()
        usual = self._usual()
        if not usual:
            return 0.0
        pace = sum(seconds for _, seconds in usual) / sum(units for units, _ in usual)
        over = sum(seconds - pace * units for units, seconds in self._stretches if seconds > limit * units)
        return over / sum(units for units, _ in self._stretches)
