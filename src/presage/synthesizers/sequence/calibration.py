"""Setting a trained network right: jobs that follow from drawn jobs drift away from those of the log.

Each round draws a trace, compares how often each word was drawn with how often the log has it, and makes words
that were too rare a little likelier; and so with repetitions and the hours of the day. What depends on what stays
as it was learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers._clock import KINDS_OF_HOURS, kind_of_hour

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.drawing import Drawer
    from presage.synthesizers.sequence.fields import Fields, Flags

STEP = 0.8
"""How much of the difference, in logarithms, the first round takes back; later ones take less."""
DOUBT = 5.0
"""Jobs by which both sides are moved towards each other, because rare words are rare by chance."""


@dataclass(frozen=True)
class Drawn:
    """Jobs stream by stream."""

    words: IntArray
    """(jobs, fields)"""
    begins: Flags
    """Which are the first of their stream."""
    hours: FloatArray
    """When they came, in hours since a Monday."""

    def repeated(self, place: int, fields: Fields) -> float:
        """Return how often a field is as in the job before, see `Fields.repetitions`; NaN where none could be."""
        follows = np.flatnonzero(~self.begins[1:]) + 1
        counted, same = fields.repetitions(place, self.words[follows], self.words[follows - 1])
        return float((same.sum() + 0.5) / (counted.sum() + 1)) if counted.any() else float(np.nan)


def calibrate(drawer: Drawer, log: Drawn, draw: Callable[[], Drawn], rounds: int) -> list[float]:
    """Move the biases of a drawer in place; return how far off the words were before each round.

    How far: mean total variation of fields between `log` and what `draw` gives.
    """
    arrays, fields = drawer.weights.arrays, drawer.fields
    repeated = [log.repeated(place, fields) for place in range(len(fields.sizes))]
    distances = []
    for done in range(rounds):
        drawn = draw()
        step = STEP / (1 + 0.5 * done)
        apart = []
        for place, size in enumerate(fields.sizes):
            wanted, got = (_shares(each.words[:, place], size) for each in (log, drawn))
            apart.append(0.5 * float(np.abs(got - wanted).sum()))
            arrays[f"fields.{place}.own.bias"] += step * _log_ratio(wanted, got, len(drawn.words))
            often = np.nan_to_num(_logit(repeated[place]) - _logit(drawn.repeated(place, fields)))
            arrays[f"fields.{place}.choice.bias"] += np.float32(step * often)
        wanted, got = (_shares(kind_of_hour(each.hours), KINDS_OF_HOURS) for each in (log, drawn))
        of_kind = step * _log_ratio(wanted, got, len(drawn.words))
        drawer.hours[:] += of_kind[kind_of_hour(np.arange(float(len(drawer.hours))))]
        distances.append(round(float(np.mean(apart)), 4))
    return distances


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def _shares(codes: IntArray, size: int) -> FloatArray:
    return np.bincount(codes, minlength=size) / len(codes)


def _log_ratio(wanted: FloatArray, got: FloatArray, jobs: int) -> NDArray[np.float32]:
    return np.log((wanted + DOUBT / jobs) / (got + DOUBT / jobs)).astype(np.float32)
