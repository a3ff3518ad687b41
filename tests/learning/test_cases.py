from __future__ import annotations

import numpy as np
import pytest

from presage.errors import InputError
from presage.policies.queue_scorer import GUARDS, QueueScorer
from presage.simulator.guided import Decider
from tests.learning.making import make_case


@pytest.mark.parametrize("order", ["sjf", "fcfs", QueueScorer()])
def test_windows_in_one_case_go_as_each_by_itself(order: str | QueueScorer) -> None:
    case, decider = make_case(jobs=500), Decider(order, GUARDS["A"])
    together = case.in_windows(7, jobs=120)
    waits_ms = together.run(decider) - together.jobs.submit_ms
    alone = [window.run(decider) - window.jobs.submit_ms for window in case.windows(7, jobs=120)]
    np.testing.assert_array_equal(waits_ms, np.concatenate(alone))
    assert (np.diff(together.jobs.submit_ms) >= 0).all()


def test_windows_longer_than_the_case_are_told() -> None:
    with pytest.raises(InputError, match="windows of 700"):
        make_case(jobs=600).in_windows(3, jobs=700)
