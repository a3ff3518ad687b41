"""Whether a classifier can tell synthetic jobs from those of the log: by rows, and with what came before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.synthesizers._clock import HOUR_MS
from presage.synthesizers.columns import GAP, RUN, SIZE
from presage.synthesizers.fidelity._boosting import area_under_curve, boost, require_lightgbm
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._history import jobs_within, lagged, user_history
from presage.synthesizers.fidelity._jobs import (
    NOMINAL,
    NUMBERS,
    codes_of,
    has,
    hours_of_week,
    job_frame,
    log_numbers_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray
    from presage.traces import Trace

FOLDS = 5
BLOCKS = 50
"""Stretches of neighbouring jobs; a fold is made of whole ones, so that neighbours are not torn apart."""
LAGS = 3
MOST_JOBS = 20_000
FEWEST_JOBS = 100


@dataclass(frozen=True)
class TwoSample(Figures):
    """How well a classifier told two traces apart: .5 is not at all, 1 always."""

    auc: float
    """Mean over the folds."""
    folds: tuple[float, ...]
    jobs: int
    """Of each trace."""
    features: int
    strongest: tuple[str, ...]
    """The features that gave it most, the first most of all."""

    @property
    def spread(self) -> float:
        """The standard deviation over the folds."""
        return float(np.std(self.folds))


def tell_apart(real: Trace, synthetic: Trace, *, sequences: bool = False, seed: int = 0) -> TwoSample:
    """Return how well boosted trees tell jobs of the two traces apart, on jobs that they have not seen.

    They see a job's columns but for its people, and with `sequences` also the jobs before it, its user's past and
    the clock. A fold is asked about by trees that saw no copy of its rows with the other answer. Raises InputError
    if there are too few jobs, MissingDependencyError without LightGBM.
    """
    require_lightgbm()
    frames = [job_frame(real), job_frame(synthetic)]
    jobs = min(MOST_JOBS, *(len(each) for each in frames))
    if jobs < FEWEST_JOBS:
        raise InputError(
            f"There are only {jobs} jobs to tell apart", expected=f"at least {FEWEST_JOBS} in each trace"
        )
    features, labels = _row_features(frames)
    width = len(features[0])
    if sequences:
        for each, frame, trace in zip(features, frames, (real, synthetic), strict=True):
            each.update(_sequence_features(frame, trace))
    names = list(features[0])
    blocks = max(FOLDS, min(BLOCKS, jobs // 20))
    places = [_spread_blocks(len(frame), jobs, blocks) for frame in frames]
    x = np.concatenate(
        [np.column_stack(list(each.values()))[rows] for each, rows in zip(features, places, strict=True)]
    )
    # Of the row itself, without what came before it.
    keys = pl.DataFrame(x[:, :width]).hash_rows().to_numpy()
    truth = np.repeat([0, 1], jobs)
    fold_of_block = np.random.default_rng(seed).permutation(np.arange(blocks) % FOLDS)
    fold = np.tile(fold_of_block[np.arange(jobs) * blocks // jobs], 2)
    codes = [names.index(name) for name in labels]
    aucs, gain = _cross_validate(x, truth, keys, fold, codes, seed)
    strongest = tuple(names[place] for place in np.argsort(-gain, kind="stable")[:5] if gain[place] > 0)
    return TwoSample(float(np.mean(aucs)), tuple(aucs), jobs, len(names), strongest)


def _cross_validate(
    x: FloatArray, truth: IntArray, keys: NDArray[np.uint64], fold: IntArray, codes: list[int], seed: int
) -> tuple[list[float], FloatArray]:
    """Return the areas under the curve, one for each fold, and what each feature gave."""
    aucs, gain = [], np.zeros(x.shape[1])
    for held in range(FOLDS):
        asked = fold == held
        known = ~asked & ~_twins(keys, truth, asked)
        booster = boost("binary", x[known], truth[known].astype(np.float64), codes, seed)
        aucs.append(area_under_curve(booster.predict(x[asked]), truth[asked]))
        gain += booster.feature_importance("gain")
    return aucs, gain


def _twins(keys: NDArray[np.uint64], truth: IntArray, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows are copies of rows asked about that are of the other trace.

    Whoever learned from them would take the original for its copy, and a trace of copies would seem better than
    one that nobody can tell apart; copies are counted elsewhere.
    """
    twins = np.zeros(len(keys), bool)
    for side in (0, 1):
        mine = truth == side
        twins[mine] = np.isin(keys[mine], keys[asked & ~mine])
    return twins


def _spread_blocks(count: int, jobs: int, blocks: int) -> IntArray:
    """Return the places of `jobs` of `count` rows in order, in stretches that lie evenly over all."""
    block = np.arange(jobs) * blocks // jobs
    first = np.searchsorted(block, block)
    starts = np.round(np.arange(blocks) * ((count - jobs) / max(blocks - 1, 1))).astype(np.int64)
    return starts[block] + first + (np.arange(jobs) - first)


def _row_features(frames: list[pl.DataFrame]) -> tuple[list[dict[str, FloatArray]], list[str]]:
    """Return the columns of each trace by name, and which of them are codes of labels."""
    numbers = [name for name in NUMBERS if has(frames[0], name)]
    labels = [name for name in NOMINAL if has(frames[0], name)]
    features = [{name: log_numbers_of(frame, name) for name in numbers} for frame in frames]
    for name in labels:
        for each, codes in zip(features, codes_of(frames, name), strict=True):
            each[name] = codes.astype(np.float64)
    return features, labels


def _sequence_features(jobs: pl.DataFrame, trace: Trace) -> dict[str, FloatArray]:
    """Return what the jobs before say, as far as the trace tells: lags, the user's past, the clock."""
    numbers = {name: log_numbers_of(jobs, name) for name in (GAP, SIZE, "limit_s", RUN)}
    submit_ms = jobs["submit_ms"].to_numpy()
    past = user_history(jobs)
    users = np.where(past.users >= 0, past.users, np.nan)
    features: dict[str, FloatArray] = {}
    for lag in range(1, LAGS + 1):
        features |= {f"{name} {lag} before": lagged(values, lag) for name, values in numbers.items()}
        features[f"same user {lag} before"] = (lagged(users, lag) == users).astype(np.float64)
    times_s = submit_ms / 1000
    features["time since own"] = np.log1p(times_s - past.before(times_s))
    for name in (SIZE, "limit_s", RUN):
        features[f"{name} against own before"] = numbers[name] - past.before(numbers[name])
    features["own in the last hour"] = past.last_hour.astype(np.float64)
    features["own in the last day"] = past.last_day.astype(np.float64)
    features["place in session"] = past.place.astype(np.float64)
    features["all in the last hour"] = jobs_within(submit_ms, HOUR_MS).astype(np.float64)
    hours = hours_of_week(trace, submit_ms)
    features["hour of day"] = (hours % 24).astype(np.float64)
    features["day of week"] = (hours // 24).astype(np.float64)
    return features
