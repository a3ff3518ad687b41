"""The model repository: versions of estimators, shadows, and every prediction with what then happened."""

from __future__ import annotations

from presage.estimators.repository.loading import registered_kinds, try_source
from presage.estimators.repository.predictions import Accuracy, Prediction, Predictions, Role
from presage.estimators.repository.pulling import Stated
from presage.estimators.repository.repository import Comparison, Repository
from presage.estimators.repository.scoring import Score, score
from presage.estimators.repository.settling import settle_predictions
from presage.estimators.repository.versions import Change, Entry, State, Versions

__all__ = [
    "Accuracy",
    "Change",
    "Comparison",
    "Entry",
    "Prediction",
    "Predictions",
    "Repository",
    "Role",
    "Score",
    "State",
    "Stated",
    "Versions",
    "registered_kinds",
    "score",
    "settle_predictions",
    "try_source",
]
