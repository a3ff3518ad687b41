"""Setting a trained network right: jobs that follow from drawn jobs drift away from those of the log.

Each round draws a trace, compares how often each word was drawn with how often the log has it, and makes words
that were too rare a little likelier; and so with repetitions, the hours of the day and what each user does. What
depends on what stays as it was learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.synthesizers._clock import KINDS_OF_HOURS, kind_of_hour
from presage.synthesizers.sequence.features import REACH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.drawing import Drawer
    from presage.synthesizers.sequence.fields import Flags

STEP = 0.8
"""How much of the difference, in logarithms, the first round takes back; later ones take less."""
DOUBT = 5.0
"""Jobs by which both sides are moved towards each other, because rare words are rare by chance."""
KINDS_OF_RUNS = 12
"""A user has too few jobs to compare every range of run times: so many kinds of them are compared."""


@dataclass(frozen=True)
class Drawn:
    """Jobs stream by stream."""

    words: IntArray
    """(jobs, fields)"""
    begins: Flags
    """Which are the first of their stream."""
    hours: FloatArray
    """When they came, in hours since a Monday."""
    user: IntArray | None
    """Whose they are; None where nobody is to have habits of their own."""

    def repeated(self, place: int, sort: tuple[int, ...]) -> float:
        """Return how often a field is as in the job before; a run time about as in one of the same sort."""
        here, before = self.words[1:], self.words[:-1]
        counted = ~self.begins[1:]
        if place == self.words.shape[1] - 1:
            counted = counted & (here[:, sort] == before[:, sort]).all(axis=1)
            same = np.abs(here[:, place] - before[:, place]) <= REACH
        else:
            same = here[:, place] == before[:, place]
        return float((same[counted].sum() + 0.5) / (counted.sum() + 1))


def calibrate(drawer: Drawer, log: Drawn, draw: Callable[[], Drawn], rounds: int) -> list[float]:
    """Move the biases of a drawer in place; return how far off the words were before each round.

    How far: mean total variation of fields between `log` and what `draw` gives. No trace is drawn twice alike, so
    that rounds end by going to and fro: the biases end at the mean of what the later half of them came to.
    """
    later: list[list[NDArray[Any]]] = []
    distances = []
    for done in range(rounds):
        distances.append(_set_right(drawer, log, draw(), STEP / (1 + 0.5 * done)))
        if done >= rounds // 2:
            later.append([array.copy() for array in _moved(drawer)])
    if later:
        for array, *values in zip(_moved(drawer), *later, strict=True):
            array[:] = np.mean(values, axis=0)
    return distances


def _moved(drawer: Drawer) -> list[NDArray[Any]]:
    """Return the arrays that calibration moves, not copies."""
    arrays, places = drawer.weights.arrays, range(len(drawer.fields.sizes))
    names = [f"fields.{place}.own.bias" for place in places]
    names += [name for place in places[1:] for name in (f"fields.{place}.choice.bias", f"usual.{place}")]
    return [drawer.hours, *(arrays[name] for name in names)]


def _set_right(drawer: Drawer, log: Drawn, drawn: Drawn, step: float) -> float:
    """Take back a part of what `drawn` differs from `log` by; return how far off its words were."""
    arrays, sort = drawer.weights.arrays, drawer.fields.sort
    apart = []
    for place, size in enumerate(drawer.fields.sizes):
        wanted, got = (_shares(each.words[:, place], size) for each in (log, drawn))
        apart.append(0.5 * float(np.abs(got - wanted).sum()))
        arrays[f"fields.{place}.own.bias"] += step * _log_ratio(wanted, got, len(drawn.words))
        if place:
            often = _logit(log.repeated(place, sort)) - _logit(drawn.repeated(place, sort))
            arrays[f"fields.{place}.choice.bias"] += np.float32(step * often)
            arrays[f"usual.{place}"] += step * _habits(log, drawn, place, arrays[f"usual.{place}"].shape)
    wanted, got = (_shares(kind_of_hour(each.hours), KINDS_OF_HOURS) for each in (log, drawn))
    of_kind = step * _log_ratio(wanted, got, len(drawn.words))
    drawer.hours[:] += of_kind[kind_of_hour(np.arange(float(len(drawer.hours))))]
    return round(float(np.mean(apart)), 4)


def _habits(log: Drawn, drawn: Drawn, place: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return how much likelier each word is to become for each user than it becomes for all: (users, V)."""
    users, size = shape
    if log.user is None or drawn.user is None:
        return np.zeros(shape, np.float32)
    is_run = place == log.words.shape[1] - 1
    kinds = np.arange(size) * min(KINDS_OF_RUNS, size) // size if is_run else np.arange(size)
    wanted = _by_user(log.user, kinds[log.words[:, place]], (users, kinds[-1] + 1))
    got = _by_user(drawn.user, kinds[drawn.words[:, place]], (users, kinds[-1] + 1))
    got = got * _ratio(wanted.sum(axis=0), got.sum(axis=0))  # as it will be when all have been set right
    there = got.sum(axis=1, keepdims=True)
    as_many = np.divide(wanted.sum(axis=1, keepdims=True), there, out=np.zeros_like(there), where=there > 0)
    likelier = np.where(there > 0, np.log((wanted + DOUBT) / (got * as_many + DOUBT)), 0.0)
    return likelier[:, kinds].astype(np.float32)


def _by_user(user: IntArray, kinds: IntArray, shape: tuple[int, int]) -> FloatArray:
    """Return how many jobs of each kind each user has."""
    counts: FloatArray = np.zeros(shape)
    np.add.at(counts, (user, kinds), 1)
    return counts


def _ratio(wanted: FloatArray, got: FloatArray) -> FloatArray:
    """Return the shares of what is wanted over those of what there is."""
    wanted, got = wanted + 0.5, got + 0.5
    return (wanted / wanted.sum()) / (got / got.sum())


def _logit(share: float) -> float:
    return float(np.log(share / (1 - share)))


def _shares(codes: IntArray, size: int) -> FloatArray:
    return np.bincount(codes, minlength=size) / len(codes)


def _log_ratio(wanted: FloatArray, got: FloatArray, jobs: int) -> NDArray[np.float32]:
    return np.log((wanted + DOUBT / jobs) / (got + DOUBT / jobs)).astype(np.float32)
