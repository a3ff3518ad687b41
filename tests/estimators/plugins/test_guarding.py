from __future__ import annotations

from collections.abc import Callable

import pytest

from presage.errors import UsageError
from presage.estimators import Basis, Estimate, EstimateRequest, Estimator, Quantity, Spread, UnsupportedError
from presage.estimators.plugins import BrokenPluginError, ask_guarded
from presage.testing.estimators import make_script_request
from tests.estimators.plugins.conftest import reference_program

REQUEST = make_script_request(Quantity.WAIT)


class Foreign(Estimator):
    """Does as it is told."""

    name = "foreign"
    quantity = Quantity.WAIT
    version = "3"

    def __init__(self, act: Callable[[], Estimate]) -> None:
        super().__init__()
        self.act = act

    def estimate(self, request: EstimateRequest) -> Estimate:
        return self.act()


def raising(error: Exception) -> Callable[[], Estimate]:
    def act() -> Estimate:
        raise error

    return act


def saying(quantity: Quantity = Quantity.WAIT, **details: object) -> Callable[[], Estimate]:
    return lambda: Estimate(quantity, Spread(1.0, 2.0, 3.0), Basis.HISTORY, "someone", "0", ("Note.",), details)


def test_an_answer_is_named_after_whom_was_asked() -> None:
    answer = ask_guarded(Foreign(saying(x=1)), REQUEST)
    assert (answer.estimator, answer.version, answer.notes, answer.details) == (
        "foreign",
        "3",
        ("Note.",),
        {"x": 1},
    )


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (raising(ZeroDivisionError("on purpose")), "ZeroDivisionError: on purpose"),
        (raising(UsageError("wrong")), "wrong"),
        (raising(RecursionError()), "RecursionError"),
        (saying(Quantity.COST), "about cost"),
        (saying(x=float("nan")), "cannot be written"),
        (saying(x=object()), "cannot be written"),
        (lambda: None, "AttributeError"),
    ],
)
def test_a_failure_of_others_is_logged_and_stays_theirs(
    act: Callable[[], Estimate], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BrokenPluginError, match=problem):
        ask_guarded(Foreign(act), REQUEST)
    assert "The estimator foreign 3 is broken" in caplog.text


def test_a_refusal_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnsupportedError, match="not mine"):
        ask_guarded(Foreign(raising(UnsupportedError("not mine"))), REQUEST)
    with pytest.raises(UnsupportedError, match="it estimates memory"):
        ask_guarded(reference_program("peak-memory"), REQUEST)
    assert not caplog.records
