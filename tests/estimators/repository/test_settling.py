from __future__ import annotations

from presage.database import Database
from presage.estimators import Basis, Estimate, EstimateRequest, Quantity, ScriptWorkload, Spread
from presage.estimators.repository import Predictions, settle_predictions
from presage.testing import make_job, make_trace


def store(predictions: Predictions, key: str, *quantities: Quantity) -> None:
    for quantity in quantities:
        request = EstimateRequest(quantity, ScriptWorkload("train.sh"))
        predictions.store(request, Estimate(quantity, Spread(1, 2, 3), Basis.HISTORY, "x", "1"), job_key=key)


def test_outcomes_are_taken_from_the_log_once_and_only_where_they_say_something(database_url: str) -> None:
    predictions = Predictions(Database(database_url))
    store(predictions, "a1", Quantity.WAIT, Quantity.WALLTIME, Quantity.MEMORY)
    store(predictions, "b2", Quantity.WALLTIME)
    store(predictions, "c3", Quantity.WALLTIME)
    trace = make_trace(
        make_job(0, 20, 100, outcome="completed", mem_used_bytes=5000, x_comment="presage:key=a1 mine"),
        make_job(0, 5, 60, outcome="timeout", x_comment="presage:key=b2"),
        make_job(0, 5, 60, outcome="completed", x_comment="somebody else's"),
    )
    assert settle_predictions(trace, predictions) == 3
    known = {(each.job_key, each.quantity): each.actual for each in predictions.find()}
    assert known[("a1", Quantity.WAIT)] == 20
    assert known[("a1", Quantity.WALLTIME)] == 100
    assert known[("a1", Quantity.MEMORY)] == 5000
    assert known[("b2", Quantity.WALLTIME)] is None  # it would have run longer
    assert known[("c3", Quantity.WALLTIME)] is None
    assert settle_predictions(trace, predictions) == 0
    predictions.database.close()


def test_a_log_without_keys_settles_nothing(database_url: str) -> None:
    predictions = Predictions(Database(database_url))
    store(predictions, "a1", Quantity.WAIT)
    assert settle_predictions(make_trace(make_job(0, 1, 1)), predictions) == 0
    predictions.database.close()
