from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from presage.foundation.baselines import BASELINES, Baseline
from presage.foundation.view.examples import Examples
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.testing import BaselineContract

needs_lightgbm = pytest.mark.skipif(find_spec("lightgbm") is None, reason="lightgbm is not installed")


class TestRequested(BaselineContract):
    name = "requested"


class TestLastTwo(BaselineContract):
    name = "last-two"


class TestSimilar(BaselineContract):
    name = "similar"


class TestStateKnn(BaselineContract):
    name = "state-knn"


class TestQbets(BaselineContract):
    name = "qbets"


@needs_lightgbm
class TestBoosting(BaselineContract):
    name = "boosting"


@needs_lightgbm
class TestBoostingRefit(BaselineContract):
    name = "boosting-refit"
    settings: ClassVar[dict[str, Any]] = {"shares": (0.7, 0.9), "intervals": False}


class TestSimulation(BaselineContract):
    name = "simulation"
    settings: ClassVar[dict[str, Any]] = {"draws": 2}
    jobs = 150


class TestUserEma(BaselineContract):
    name = "user-ema"


def test_every_kind_is_under_contract() -> None:
    tested = {kind.name for kind in BaselineContract.__subclasses__() if kind is not Look}
    assert tested >= {spec.name for spec in BASELINES.specs() if spec.target.startswith("presage.")}


class Prophet(Baseline):
    name = "similar"
    tasks = frozenset({Task.WAIT})

    def _durations(self, examples: Examples, rows: NDArray[np.int64], task: Task) -> NDArray[np.float64]:
        outcome_s = targets_of(examples, task).outcome_s[rows]
        return np.repeat(outcome_s[:, None], 3, axis=1)


class Look(BaselineContract):
    __test__ = False

    def make(self) -> Baseline:
        return Prophet()


def test_the_contract_catches_one_that_knows_the_future() -> None:
    with pytest.raises(AssertionError, match="wait"):
        Look().test_what_is_not_known_yet_has_no_influence(0.83)
