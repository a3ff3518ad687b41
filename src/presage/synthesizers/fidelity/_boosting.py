"""Gradient boosting as a measuring instrument: few settings, the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import MissingDependencyError
from presage.synthesizers.fidelity.correlations import mean_ranks

if TYPE_CHECKING:
    from types import ModuleType

    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray

SETTINGS = {
    "learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20, "max_bin": 127, "verbosity": -1,
    "num_threads": 1, "deterministic": True, "force_row_wise": True, "feature_pre_filter": False,
}  # fmt: skip
ROUNDS = 120


def boost(
    objective: str, x: FloatArray, truth: FloatArray, labels: list[int], seed: int, rounds: int = ROUNDS
) -> Any:
    """Return a booster of `x`, of which the columns `labels` are codes. Raises MissingDependencyError."""
    lightgbm = require_lightgbm()
    settings = {**SETTINGS, "objective": objective, "seed": seed}
    data = lightgbm.Dataset(x, truth, categorical_feature=labels, params=settings)
    return lightgbm.train(settings, data, num_boost_round=rounds)


def require_lightgbm() -> ModuleType:
    """Return the package. Raises MissingDependencyError if it is not installed."""
    try:
        import lightgbm
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "lightgbm", extra="boost", purpose="Telling traces apart, or learning from them,"
        ) from None
    module: ModuleType = lightgbm
    return module


def area_under_curve(scores: FloatArray, truth: IntArray) -> float:
    """Return the chance that a positive scores higher than a negative, equal scores counting half."""
    positive = truth == 1
    wins = mean_ranks(scores)[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    pairs = int(positive.sum()) * int((~positive).sum())
    return float(wins) / pairs if pairs else float(np.nan)
