from __future__ import annotations

import numpy as np
import pytest

from presage.policies.queue_decision import Queue, order_queue
from presage.policies.queue_scorer import GUARDS, Guard, QueueScorer
from presage.policies.run_forecasts import RunForecasts

HOUR_S = 3600.0


def three_jobs(waited_h: tuple[float, ...] = (3, 2, 1), urgent: tuple[bool, ...] | None = None) -> Queue:
    return Queue(
        np.array(waited_h) * HOUR_S, np.full(3, HOUR_S), np.ones(3, np.int64), np.zeros(3), free=1, capacity=4,
        urgent=None if urgent is None else np.array(urgent),
    )  # fmt: skip


RUNS = RunForecasts.certain(np.array([3600.0, 60.0, 600.0]))


def test_short_jobs_go_first() -> None:
    assert order_queue(QueueScorer(), GUARDS["A"], three_jobs(), RUNS).tolist() == [1, 2, 0]


def test_the_oldest_goes_first_once_it_has_waited_too_long() -> None:
    # The backlog is 3 x 1 h on 4 processors: 0.75 h.
    waited = three_jobs((12.8, 2, 1))
    assert order_queue(QueueScorer(), Guard(12 * HOUR_S, 1.0), waited, RUNS).tolist() == [0, 1, 2]
    assert order_queue(QueueScorer(), Guard(12 * HOUR_S, 2.0), waited, RUNS).tolist() == [1, 2, 0]
    assert order_queue(QueueScorer(), None, waited, RUNS).tolist() == [1, 2, 0]


def test_what_an_operator_wants_goes_before_the_oldest() -> None:
    waited = three_jobs((100, 2, 1), urgent=(False, False, True))
    assert order_queue(QueueScorer(), GUARDS["E"], waited, RUNS).tolist() == [2, 0, 1]


def test_an_empty_queue_has_no_order() -> None:
    nothing = np.empty(0)
    queue = Queue(nothing, nothing, nothing.astype(np.int64), nothing, free=1, capacity=4)
    assert not len(order_queue(QueueScorer(), GUARDS["A"], queue, RunForecasts.certain(nothing)))


def test_what_is_read_is_what_the_formulas_say() -> None:
    of_jobs, of_queue = three_jobs().reads(RUNS)
    assert of_jobs[1].tolist() == pytest.approx(
        [np.log(60), np.log(60), np.log(3600), 0.0, 0.25, np.log(1.5), np.log(1 + 7200 / 60), 0.0, 1.0]
    )
    assert of_queue.tolist() == pytest.approx([np.log(4), 0.25, np.log(1.75)])
