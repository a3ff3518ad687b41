"""Gradient boosting on the numbers that the model reads of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import MissingDependencyError, UsageError
from presage.foundation.baselines._base import Baseline, ForecastsFailures
from presage.foundation.baselines._quantiles import LEVELS
from presage.foundation.view.seen import ANCHOR
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from lightgbm import Booster

    from presage.foundation.baselines._base import Floats, Part, Rows
    from presage.foundation.view.examples import Examples

SETTINGS = {
    "learning_rate": 0.08, "num_leaves": 63, "min_data_in_leaf": 100, "feature_fraction": 0.6,
    "bagging_fraction": 0.8, "bagging_freq": 1, "max_bin": 127, "num_threads": 1, "verbosity": -1,
    "deterministic": True, "force_row_wise": True,
}  # fmt: skip
MEDIAN = LEVELS[1]
MOST_ROUNDS = 2000
PATIENCE = 40
UNWATCHED_ROUNDS = 200
"""Without validation there is nothing to stop at."""
NOTHING_KNOWN = 0.5
LONGEST = 25.0
"""The logarithm of a duration beyond any; keeps what a stray leaf says finite."""


class Boosting(ForecastsFailures, Baseline):
    """LightGBM: the median by absolute error, p10 and p90 by pinball loss, of logarithms relative to the anchor.

    Fitted on other clusters it forecasts an unseen one; fitted on what a cluster knew at some time, itself.
    Of a part with more than `rows_per_part` rows so many are drawn, so that clusters count alike; None takes all.
    Without `intervals` only the median is learned, in a third of the time, and stands for all.
    It knows of ages what the rows that it was fitted on tell.
    """

    name = "boosting"
    tasks = frozenset({Task.WAIT, Task.RUN})
    knows_age = True

    def __init__(self, *, rows_per_part: int | None = None, intervals: bool = True, seed: int = 0) -> None:
        self._rows_per_part = rows_per_part
        self._levels = LEVELS if intervals else (MEDIAN,)
        self._seed = seed
        self._durations_by: dict[Task, dict[float, Booster]] = {}
        self._failures_by: Booster | float | None = None

    def fit(self, parts: Sequence[Part], task: Task, validation: Part | None = None) -> None:
        known = [_durations_known(part, task) for part in self._drawn(parts, task)]
        watched = _durations_known(validation, task) if validation else None
        self._durations_by[task] = {
            level: self._boost(_objective(level), known, watched) for level in self._levels
        }

    def fit_failures(self, parts: Sequence[Part], validation: Part | None = None) -> None:
        known = [_ends_known(part) for part in self._drawn(parts, Task.RUN)]
        watched = _ends_known(validation) if validation else None
        failed = [end for _, ends in known for end in ends]
        if len(set(failed)) < 2:
            # Nothing to tell apart: all that is known is how often.
            self._failures_by = failed[0] if failed else NOTHING_KNOWN
        else:
            self._failures_by = self._boost({"objective": "binary"}, known, watched)

    def failures(self, examples: Examples, rows: Rows) -> Floats:
        if self._failures_by is None:
            raise UsageError("Failures were not fitted", remedy="Call fit_failures first")
        if not len(rows):
            return np.zeros(0)
        if isinstance(self._failures_by, float):
            return np.full(len(rows), self._failures_by)
        return _predicted(self._failures_by, examples.x[rows])

    def _durations(self, examples: Examples, rows: Rows, task: Task) -> Floats:
        boosters = self._durations_by.get(task)
        if boosters is None:
            raise UsageError(f"Boosting was not fitted for {task.value}s", remedy="Call fit first")
        x = examples.x[rows, : task.numbers]
        median = _predicted(boosters[MEDIAN], x)
        found = np.stack([_predicted(boosters[level], x) if level in boosters else median for level in LEVELS], 1)
        # The median is the best of the three: it stays where the others cross it.
        found[:, 0], found[:, 2] = np.minimum(found[:, 0], median), np.maximum(found[:, 2], median)
        return np.expm1(np.clip(found + x[:, [ANCHOR[task]]], 0.0, LONGEST))

    def _drawn(self, parts: Sequence[Part], task: Task) -> list[Part]:
        """Return usable rows of each part, at most so many, in the order of time."""
        rng = np.random.default_rng(self._seed)
        drawn = []
        most = self._rows_per_part
        for part in parts:
            rows = _usable(part, task)
            if most is not None and len(rows) > most:
                rows = np.sort(rng.choice(rows, most, replace=False))
            drawn.append((part[0], rows))
        return drawn

    def _boost(
        self, objective: dict[str, Any], known: Sequence[tuple[Any, Any]], watched: tuple[Any, Any] | None
    ) -> Booster:
        lightgbm = _lightgbm()
        if not any(len(truth) for _, truth in known):
            raise UsageError(
                "There is nothing to fit on",
                expected="at least one row whose outcome is known",
                remedy="Take a later split, or a longer log",
            )
        x, truth = (np.concatenate(arrays) for arrays in zip(*known, strict=True))
        settings = {**SETTINGS, **objective, "seed": self._seed}
        data = lightgbm.Dataset(x, truth, params=settings)
        rounds: dict[str, Any] = {"num_boost_round": UNWATCHED_ROUNDS}
        if watched is not None and len(watched[0]):
            rounds = {
                "num_boost_round": MOST_ROUNDS,
                "valid_sets": [lightgbm.Dataset(*watched, reference=data, params=settings)],
                "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
            }
        booster: Booster = lightgbm.train(settings, data, **rounds)
        return booster


def _lightgbm() -> ModuleType:
    try:
        import lightgbm
    except ModuleNotFoundError:
        raise MissingDependencyError("lightgbm", extra="boost", purpose="Boosting") from None
    return lightgbm


def _objective(level: float) -> dict[str, Any]:
    return {"objective": "l1"} if level == MEDIAN else {"objective": "quantile", "alpha": level}


def _usable(part: Part, task: Task) -> Rows:
    """Return the rows of which the whole duration is known."""
    examples, rows = part
    targets = targets_of(examples, task)
    return rows[(targets.usable & ~targets.is_censored)[rows]]


def _durations_known(part: Part, task: Task) -> tuple[Any, Any]:
    """Return the numbers of the questions, and the logarithms of the durations relative to their anchors."""
    examples, rows = part[0], _usable(part, task)
    x = examples.x[rows, : task.numbers]
    return x, np.log1p(targets_of(examples, task).outcome_s[rows]) - x[:, ANCHOR[task]]


def _ends_known(part: Part) -> tuple[Any, Any]:
    examples, rows = part
    end = targets_of(examples, Task.RUN).end
    rows = rows[end[rows] >= 0]
    return examples.x[rows], (end[rows] > 0).astype(np.float64)


def _predicted(booster: Booster, x: Any) -> Floats:
    return np.asarray(booster.predict(x, num_threads=1), np.float64)
