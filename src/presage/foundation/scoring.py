"""How good forecasts are: splits by time, and the figures that every forecaster is compared by."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.foundation.calibration import whole_s
from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples
    from presage.foundation.view.jobs import JobHistory

    Floats = NDArray[np.float64]

TRAIN, VALIDATE = 0.7, 0.8
"""By submit: jobs up to the first share are to train on, up to the second to validate; the rest are the test."""
SHORTEST_S = 60.0
"""Waits below a minute count as one when factors are compared."""


@dataclass(frozen=True)
class Split:
    """Rows of questions at submits. Training and validation rows have outcomes known when the test begins."""

    train: NDArray[np.int64]
    validate: NDArray[np.int64]
    test: NDArray[np.int64]


def split_of(examples: Examples, task: Task, latest: int | None = None) -> Split:
    """Return the chronological split of the last `latest` jobs that ran; all of them if None."""
    history, questions = examples.history, examples.questions
    ran = np.flatnonzero(np.isfinite(history.start_s) & np.isfinite(history.end_s))
    ran = ran[-latest:] if latest is not None else ran
    row_of = np.full(len(history), -1)
    at_submit = questions.kinds == SUBMITTED
    row_of[questions.asked[at_submit]] = np.flatnonzero(at_submit)
    first, second = (int(share * len(ran)) for share in (TRAIN, VALIDATE))
    long_enough = history.run_s[ran] > 0
    test_from_s = history.facts["submit_s"][ran[min(second, len(ran) - 1)]] if len(ran) else 0.0
    known_s = (history.start_s if task is Task.WAIT else history.end_s)[ran]
    usable = long_enough & (known_s < test_from_s)
    parts = (usable[:first], usable[first:second], long_enough[second:])
    train, validate, test = (
        row_of[part[kept]] for part, kept in zip(np.split(ran, [first, second]), parts, strict=True)
    )
    return Split(train[train >= 0], validate[validate >= 0], test[test >= 0])


@dataclass(frozen=True)
class Scores:
    """The figures of one forecaster on one set of questions."""

    jobs: int
    log_mae: float
    """Mean |log10(1 + forecast) - log10(1 + truth)| of the medians."""
    mae_s: float
    within_factor_2: float
    coverage_80: float
    """Share of outcomes between the 10 % and the 90 % quantile."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers."""
        return asdict(self)


def score(quantiles_s: Floats, truth_s: Floats, task: Task) -> Scores:
    """Compare p10, p50 and p90 of forecasts (n by 3) with what happened."""
    if task is Task.RUN:
        truth_s, quantiles_s = np.maximum(truth_s, 1.0), np.maximum(quantiles_s, 1.0)
    low_s, median_s, high_s = np.maximum(quantiles_s, 0.0).T
    floor_s = SHORTEST_S if task is Task.WAIT else 0.0
    ours, theirs = np.maximum(median_s, floor_s), np.maximum(truth_s, floor_s)
    inside = (truth_s >= whole_s(low_s)) & (truth_s <= whole_s(high_s))
    return Scores(
        jobs=len(truth_s),
        log_mae=float(np.abs(np.log10(1 + median_s) - np.log10(1 + truth_s)).mean()),
        mae_s=float(np.abs(median_s - truth_s).mean()),
        within_factor_2=float(((ours <= 2 * theirs) & (theirs <= 2 * ours)).mean()),
        coverage_80=float(inside.mean()),
    )


def cut_at_limit(quantiles_s: Floats, history: JobHistory, asked: NDArray[np.int64]) -> Floats:
    """Return medians of run times that do not exceed the limits of their jobs; the other quantiles stay."""
    limit_s = np.where(history.facts["has_limit"][asked] > 0, history.facts["limit_s"][asked], np.inf)
    cut = quantiles_s.copy()
    cut[:, 1] = np.minimum(cut[:, 1], limit_s)
    cut[:, 0] = np.minimum(cut[:, 0], cut[:, 1])
    return cut


def area_under_roc(chance: Floats, happened: NDArray[np.bool_]) -> float | None:
    """Return the chance that a random event was given more than a random non-event; None without either."""
    events, others = int(happened.sum()), int((~happened).sum())
    if not events or not others:
        return None
    _, place, count = np.unique(chance, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - (count - 1) / 2
    return float((mean_rank[place][happened].sum() - events * (events + 1) / 2) / (events * others))


def average_precision(chance: Floats, happened: NDArray[np.bool_]) -> float | None:
    """Return the mean precision over all recalls (area under precision and recall); None without events."""
    if not happened.any():
        return None
    order = np.argsort(-chance, kind="stable")
    hits = np.cumsum(happened[order])
    last_of_equal = np.append(np.diff(chance[order]) != 0, True)
    precision = (hits / np.arange(1, len(order) + 1))[last_of_equal]
    recall = hits[last_of_equal] / hits[-1]
    return float(np.sum(np.diff(np.concatenate([[0.0], recall])) * precision))
