"""How a script's time grows with its parameters: run it at small scales, fit, and tell that of a larger one.

Several laws are fitted to the same runs; the one that foretells each run best from the others is taken.
"""

from __future__ import annotations

import itertools
import math
import shlex
import string
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from presage.errors import UsageError
from presage.estimators._base import UnsupportedError
from presage.estimators.spread import Spread

Floats = NDArray[np.float64]
Law = Callable[[Floats, Floats], Callable[[Floats], Floats]]
"""Parameters (a row per run) and seconds in; a function from parameters to seconds out."""

PARALLEL = frozenset({"cores", "cpus", "gpus", "nodes", "p", "processes", "ranks", "tasks", "threads", "workers"})
"""Parameters of which more make a run shorter."""
_FEWEST = 3
_Z90 = NormalDist().inv_cdf(0.9)
_FLOOR = 0.03
"""No run time repeats itself better than this, in logarithms."""
_FAR = 0.05
"""What every e-fold beyond the measured range adds to the uncertainty, in logarithms."""
_AS_GOOD = 2.0
"""Laws whose error is at most this many times the best one's have a say in the uncertainty."""
_TINY_S = 1e-9


@dataclass(frozen=True)
class Run:
    """One run of a sweep."""

    parameters: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class SweepFit:
    """The law that was chosen, and what the others were worth."""

    law: str
    errors: dict[str, float]
    """Root mean square error of each law in logarithms, each run foretold from the others."""
    names: tuple[str, ...]
    runs: tuple[Run, ...]

    def predict(self, parameters: Mapping[str, float]) -> Spread:
        """Return the time of a run with these parameters. Raises UsageError unless all have a number above 0.

        The interval grows with the error of the law, the disagreement of laws that are nearly as good, and the
        distance from what was measured.
        """
        _check(parameters, self.names)
        known, seconds = _table(self.runs, self.names)
        asked = np.array([[parameters[name] for name in self.names]], dtype=float)
        laws = _laws(self.names)
        best = self.errors[self.law]
        told = {
            name: _told(laws[name], known, seconds, asked)
            for name, error in self.errors.items()
            if error <= _AS_GOOD * max(best, _FLOOR)
        }
        center = told[self.law]
        apart = max(abs(math.log(each / center)) for each in told.values())
        width = math.hypot(_Z90 * max(best, _FLOOR), apart, _FAR * _beyond(known, asked[0]))
        return Spread.around(center, math.exp(width))


def fit_sweep(runs: Sequence[Run]) -> SweepFit:
    """Return the law that fits measured runs best, by leaving each out in turn.

    Raises UnsupportedError for fewer than three runs, UsageError for runs whose parameters differ or are not above
    0.
    """
    if len(runs) < _FEWEST:
        raise UnsupportedError(
            f"{len(runs)} measured runs say nothing of how the time grows",
            expected=f"{_FEWEST} or more",
            remedy="Run the script at more scales",
        )
    names = tuple(sorted(runs[0].parameters))
    for run in runs:
        _check(run.parameters, names)
        if not 0 <= run.seconds < math.inf:
            raise UsageError(f"A run of {run.seconds} s cannot be used", expected="a time from 0 s up")
    known, seconds = _table(runs, names)
    errors = {name: _validated(law, known, seconds) for name, law in _laws(names).items()}
    return SweepFit(min(errors, key=lambda name: errors[name]), errors, names, tuple(runs))


def _check(parameters: Mapping[str, float], names: tuple[str, ...]) -> None:
    if tuple(sorted(parameters)) != names or not names:
        raise UsageError(
            f"The parameters {', '.join(sorted(parameters)) or 'of a run (none)'} are not those of the other runs",
            expected=", ".join(names) or "at least one parameter",
        )
    for name, value in parameters.items():
        if not 0 < value < math.inf:
            raise UsageError(f"The parameter {name} is {value}", expected="a number above 0")


def _table(runs: Sequence[Run], names: tuple[str, ...]) -> tuple[Floats, Floats]:
    known = np.array([[run.parameters[name] for name in names] for run in runs], dtype=float)
    return known, np.array([max(run.seconds, _TINY_S) for run in runs])


def _validated(law: Law, known: Floats, seconds: Floats) -> float:
    away = []
    for number in range(len(seconds)):
        others = np.arange(len(seconds)) != number
        told = _told(law, known[others], seconds[others], known[number : number + 1])
        away.append(math.log(told / seconds[number]))
    return math.sqrt(sum(each * each for each in away) / len(away))


def _told(law: Law, known: Floats, seconds: Floats, asked: Floats) -> float:
    """Return what a law says, kept to what a float can hold and to above nothing."""
    with np.errstate(all="ignore"):
        told = float(law(known, seconds)(asked)[0])
    low, high = float(seconds.min()) * 1e-6, float(seconds.max()) * 1e9
    return min(max(told, low), high) if math.isfinite(told) else high


def _laws(names: tuple[str, ...]) -> dict[str, Law]:
    laws: dict[str, Law] = {
        "power": _power,
        "linear": _polynomial(1),
        "quadratic": _polynomial(2),
        "nearest": _nearest,
    }
    parallel = [place for place, name in enumerate(names) if name.lower() in PARALLEL]
    if len(parallel) == 1:
        for degree in (1, 2, 3) if len(names) > 1 else (1,):
            laws[f"amdahl-{degree}" if len(names) > 1 else "amdahl"] = _amdahl(parallel[0], degree)
    return laws


def _power(known: Floats, seconds: Floats) -> Callable[[Floats], Floats]:
    """Fit t = a·Πxᵇ, by least squares in logarithms."""
    weights = _solved(_with_one(np.log(known)), np.log(seconds))
    return lambda asked: np.exp(_with_one(np.log(asked)) @ weights)


def _polynomial(degree: int) -> Law:
    """Fit t = a + Σb·x (+ Σc·x·y), by least squares in relative error."""

    def law(known: Floats, seconds: Floats) -> Callable[[Floats], Floats]:
        scale = known.max(axis=0)
        terms = [
            term
            for power in range(1, degree + 1)
            for term in itertools.combinations_with_replacement(range(known.shape[1]), power)
        ]

        def features(table: Floats) -> Floats:
            parts = [np.prod((table / scale)[:, list(term)], axis=1) for term in terms]
            return _with_one(np.column_stack(parts))

        weights = _relative(features(known), seconds)
        return lambda asked: features(asked) @ weights

    return law


def _amdahl(place: int, degree: int) -> Law:
    """Fit t = a + w·(b + c/p) + d·log p, where w is the product of the other parameters to the power `degree`."""

    def features(table: Floats) -> Floats:
        parallel = table[:, place]
        work = np.prod(np.delete(table, place, axis=1), axis=1) ** degree
        return np.column_stack([np.ones(len(table)), work, work / parallel, np.log(parallel)])

    def law(known: Floats, seconds: Floats) -> Callable[[Floats], Floats]:
        scale = np.maximum(np.abs(features(known)).max(axis=0), 1e-300)
        weights = _relative(features(known) / scale, seconds)
        return lambda asked: (features(asked) / scale) @ weights

    return law


def _nearest(known: Floats, seconds: Floats) -> Callable[[Floats], Floats]:
    """The times of the two nearest runs, by how near they are."""

    def told(asked: Floats) -> Floats:
        away = np.linalg.norm(np.log(known)[None] - np.log(asked)[:, None], axis=2)
        nearest = np.argsort(away, axis=1, kind="stable")[:, :2]
        weights = 1 / (np.take_along_axis(away, nearest, axis=1) + 1e-9)
        center = (weights * np.log(seconds)[nearest]).sum(axis=1) / weights.sum(axis=1)
        return np.asarray(np.exp(center), dtype=float)

    return told


def _with_one(table: Floats) -> Floats:
    return np.column_stack([np.ones(len(table)), table])


def _relative(features: Floats, seconds: Floats) -> Floats:
    return _solved(features / seconds[:, None], np.ones(len(seconds)))


def _solved(features: Floats, wanted: Floats) -> Floats:
    """Least squares; where there are more weights than runs, the smallest of all that fit."""
    found, *_ = np.linalg.lstsq(features, wanted, rcond=1e-9)
    return np.asarray(found, dtype=float)


def _beyond(known: Floats, asked: Floats) -> float:
    low, high, here = np.log(known.min(axis=0)), np.log(known.max(axis=0)), np.log(asked)
    return float(np.linalg.norm(np.maximum(0, here - high) + np.maximum(0, low - here)))


@dataclass(frozen=True)
class Sweep:
    """What was run, and what was not, with the reasons."""

    runs: tuple[Run, ...]
    left_out: tuple[tuple[Mapping[str, float], str], ...] = ()
    spent_s: float = 0.0


Runner = Callable[[Sequence[str], float], float]
"""A command and a limit in seconds in, the seconds it took out; raises RunError."""


class RunError(Exception):
    """A run of a sweep gave no time; the message says why."""


@dataclass
class _Spending:
    budget_s: float
    spent_s: float = 0.0
    runs: list[Run] = field(default_factory=list)
    left_out: list[tuple[Mapping[str, float], str]] = field(default_factory=list)


def run_locally(command: Sequence[str], limit_s: float) -> float:
    """Run a command on this machine and return the seconds it took. Raises RunError where it fails or is late."""
    begin = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603  (the very command that the user wants to know about)
            command, timeout=limit_s, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"took more than {limit_s:g} s") from None
    except (OSError, ValueError) as error:
        raise RunError(f"could not be started: {error}") from None
    if done.returncode:
        words = " ".join(done.stderr.decode(errors="replace").split())
        raise RunError(f"ended with status {done.returncode}: {words[-200:]}")
    return time.monotonic() - begin


def run_sweep(
    command_template: str,
    grid: Mapping[str, Sequence[float]],
    runner: Runner = run_locally,
    *,
    limit_s: float = 300.0,
    budget_s: float = 1800.0,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run a command with all values of `grid`, those that should be short first, until `budget_s` are spent.

    The template names parameters in braces, `python model.py --cells {n}`; no shell sees it. No run may take more
    than `limit_s`; what failed, was late or did not get its turn is told with its reason. Raises UsageError for a
    template and a grid that do not fit.
    """
    points = _in_order(_points(command_template, grid))
    spending = _Spending(budget_s)
    for number, point in enumerate(points):
        if progress is not None:
            progress(number, len(points))
        _run_one(_command(command_template, point), point, runner, spending, limit_s)
    if progress is not None:
        progress(len(points), len(points))
    return Sweep(tuple(spending.runs), tuple(spending.left_out), spending.spent_s)


def _run_one(
    command: list[str], point: Mapping[str, float], runner: Runner, spending: _Spending, limit_s: float
) -> None:
    rest_s = spending.budget_s - spending.spent_s
    if rest_s <= 0:
        spending.left_out.append((point, f"the budget of {spending.budget_s:g} s was spent"))
        return
    allowed_s = min(limit_s, rest_s)
    begin = time.monotonic()
    try:
        seconds = runner(command, allowed_s)
    except RunError as error:
        spending.left_out.append((point, str(error)))
        spending.spent_s += time.monotonic() - begin
        return
    spending.runs.append(Run(point, seconds))
    spending.spent_s += seconds


def _points(template: str, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    try:
        named = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
        shlex.split(template)
    except ValueError as error:
        raise UsageError(f"The command {template!r} cannot be understood: {error}") from None
    if named != set(grid) or not named:
        raise UsageError(
            f"The command names {', '.join(sorted(named)) or 'no parameter'} and the grid "
            f"{', '.join(sorted(grid)) or 'none'}",
            expected="the same parameters in both, like --cells {n} and n=1000,2000",
        )
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    for point in points:
        _check(point, tuple(sorted(grid)))
    return points


def _in_order(points: list[dict[str, float]]) -> list[dict[str, float]]:
    def work(point: dict[str, float]) -> float:
        return sum((-1 if name.lower() in PARALLEL else 1) * math.log(value) for name, value in point.items())

    return sorted(points, key=work)


def _command(template: str, point: Mapping[str, float]) -> list[str]:
    written = {name: f"{value:.15g}" for name, value in point.items()}
    try:
        return [part.format(**written) for part in shlex.split(template)]
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        raise UsageError(f"The command {template!r} cannot be filled in: {error}") from None
