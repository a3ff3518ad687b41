"""Fitting a device to measured steps.

A step takes T = Σ cost·amount over kinds of operators: FLOPs of those that calculate, bytes of the others, and the
number of calls. Costs are found by least squares of log T, with the logarithm of each cost held near that of a
roofline times one common factor. So costs are never negative, errors count relative to the step, and a kind that
few networks have keeps close to the roofline. How close is chosen by leaving networks out in turn, and from the
same errors comes the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from presage.errors import InputError
from presage.estimators._base import Basis
from presage.estimators.training.devices.model import CALCULATING, KINDS, DeviceModel, Rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.estimators.training.profile import OperatorClass, StepProfile

Floats = NDArray[np.float64]

PRIOR_FLOPS_S = 80e9
PRIOR_BYTES_S = 8e9
PRIOR_CALL_S = 4e-6
"""Of one core of a server, with the efficiency that is usual for it; only their ratios matter."""
SHRINKAGES = (0.003, 0.01, 0.03, 0.1, 0.3)
COVERED = 0.8
FEWEST = 8
_COMMON = 1e-3
_ROUNDS = 60
_CLOSE = 1e-6


@dataclass(frozen=True)
class Sample:
    """One measured network."""

    profile: StepProfile
    seconds: float
    """Of a step."""
    kind: str
    """Networks of the same kind are left out together."""


@dataclass(frozen=True)
class Fit:
    """Costs in the order of `features`, and what they were worth."""

    costs: Floats
    shrinkage: float
    errors: Floats
    """Logarithm of the measured by the foretold time of each sample, its kind left out."""

    @property
    def factor(self) -> float:
        """The factor within which `COVERED` of networks that were not seen lie, by split conformal prediction."""
        away = np.sort(np.abs(self.errors))
        place = min(len(away), math.ceil(COVERED * (len(away) + 1))) - 1
        return float(np.exp(away[place]))

    @property
    def median_error(self) -> float:
        """Median of |foretold / measured - 1|."""
        return float(np.median(np.abs(np.expm1(-self.errors))))


def features(profile: StepProfile) -> Floats:
    """Return the roofline time of each kind of operator, and of all calls, in seconds."""
    row = [_roofline_s(kind, profile.classes.get(kind)) for kind in KINDS]
    return np.array([*row, PRIOR_CALL_S * sum(each.calls for each in profile.classes.values())])


def fit_costs(samples: Sequence[Sample]) -> Fit:
    """Return the costs that fit the samples. Raises InputError for fewer than 8 kinds of networks."""
    kinds = np.array([sample.kind for sample in samples])
    if len(set(kinds)) < FEWEST:
        raise InputError(
            f"{len(set(kinds))} kinds of networks are too few to fit a device to", expected=f"{FEWEST} or more"
        )
    table = np.array([features(sample.profile) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    tried = {each: _left_out(table, seconds, kinds, each) for each in SHRINKAGES}
    best = min(SHRINKAGES, key=lambda each: float(np.mean(np.abs(tried[each]))))
    return Fit(_solved(table, seconds, best), best, tried[best])


def fit_device(name: str, samples: Sequence[Sample], *, core_gflops: float | None = None) -> DeviceModel:
    """Return a device fitted to measured steps. Raises as `fit_costs` does."""
    return as_device(name, fit_costs(samples), len(samples), core_gflops=core_gflops)


def as_device(name: str, fit: Fit, workloads: int, *, core_gflops: float | None = None) -> DeviceModel:
    """Return the device with these costs."""
    rates = {kind: _rate(kind, cost) for kind, cost in zip(KINDS, fit.costs[:-1].tolist(), strict=True)}
    return DeviceModel(
        name=name,
        rates=rates,
        call_s=float(fit.costs[-1]) * PRIOR_CALL_S,
        factor=fit.factor,
        basis=Basis.MODELLED,
        workloads=workloads,
        error=fit.median_error,
        core_gflops=core_gflops,
    )


def _roofline_s(kind: str, amount: OperatorClass | None) -> float:
    if amount is None:
        return 0.0
    return amount.flops / PRIOR_FLOPS_S if kind in CALCULATING else amount.bytes / PRIOR_BYTES_S


def _rate(kind: str, cost: float) -> Rate:
    if kind in CALCULATING:
        return Rate(per_flop_s=cost / PRIOR_FLOPS_S)
    return Rate(per_byte_s=cost / PRIOR_BYTES_S)


def _left_out(table: Floats, seconds: Floats, kinds: NDArray[np.str_], shrinkage: float) -> Floats:
    errors = np.zeros(len(seconds))
    for kind in dict.fromkeys(kinds.tolist()):
        out = kinds == kind
        costs = _solved(table[~out], seconds[~out], shrinkage)
        errors[out] = np.log(seconds[out] / (table[out] @ costs))
    return errors


def _solved(table: Floats, seconds: Floats, shrinkage: float) -> Floats:
    """Return costs relative to the roofline, by Gauss-Newton on their logarithms: own parts and a common one."""
    columns = table.shape[1]
    parts = np.hstack([np.eye(columns), np.ones((columns, 1))])
    held = np.array([shrinkage] * columns + [_COMMON])
    found = np.zeros(columns + 1)
    wanted = np.log(seconds)
    for _ in range(_ROUNDS):
        costs = np.exp(parts @ found)
        told = table @ costs
        slopes = (table * costs / told[:, None]) @ parts
        away = np.log(told) - wanted
        change = np.linalg.solve(slopes.T @ slopes + np.diag(held), -(slopes.T @ away + held * found))
        change *= min(1.0, 1.0 / float(np.abs(change).max()))
        found += change
        if float(np.abs(change).max()) < _CLOSE:
            break
    return np.exp(parts @ found)
