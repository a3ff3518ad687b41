"""The contract over every estimator that is registered; those of plug-ins are beside their own tests."""

from __future__ import annotations

import pytest

from presage.estimators import ESTIMATORS, Estimator, Knowledge, Quantity, Spread
from presage.estimators.asking import ask
from presage.testing.estimators import EstimatorContract, make_script_request
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace


def history() -> Trace:
    """Return forty jobs of two users in the partition that requests name."""
    jobs = [
        make_job(
            submit_s=3600.0 * number, wait_s=600.0 * (number % 5), run_s=1800.0 + 60 * number, cpus=8,
            user="ada" if number % 2 else "bob", name="job.sh", partition="batch", limit_s=7200.0, cpus_req=8.0,
        )
        for number in range(40)
    ]  # fmt: skip
    return make_trace(*jobs, cpus=64)


KNOWLEDGE = Knowledge(history=history(), stated_waits_s={"example/batch": Spread(60, 600, 3600)})


@pytest.fixture(params=list(ESTIMATORS))
def named(request: pytest.FixtureRequest) -> Estimator:
    name: str = request.param
    if name not in ESTIMATORS.load_all():
        pytest.skip(f"{name} cannot be loaded here")
    return ESTIMATORS.get(name)(KNOWLEDGE)


class TestEveryEstimator(EstimatorContract):
    answers = None

    @pytest.fixture
    def estimator(self, named: Estimator) -> Estimator:
        return named

    def test_it_is_registered_under_its_name(self, estimator: Estimator) -> None:
        assert ESTIMATORS.get(estimator.name) is type(estimator)


def test_the_first_that_has_an_answer_gives_it() -> None:
    answer = ask(make_script_request(Quantity.WAIT), KNOWLEDGE)
    assert (answer.estimator, answer.spread) == ("stated-wait", Spread(60, 600, 3600))
