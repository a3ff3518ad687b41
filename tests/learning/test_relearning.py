from __future__ import annotations

from itertools import count

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError
from presage.foundation.model import Model
from presage.foundation.training import finetuning
from presage.foundation.training.finetuning import COURSES
from presage.foundation.view.tasks import Task
from presage.learning.relearning import relearn_runs
from presage.simulator import simulate
from presage.traces import Trace
from presage.traces.workloads import make_model


@pytest.fixture(scope="module")
def log() -> Trace:
    settings = {"users": 5, "processors": 64, "load": 0.8}
    return simulate(make_model("lublin", settings).generate(900, seed=3), "fcfs+easy").trace


@pytest.fixture(autouse=True)
def short_courses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, and what they come to always takes over, so that all that is learnt can be seen."""
    monkeypatch.setitem(COURSES, Task.RUN, COURSES[Task.RUN].of_steps(5))
    ever_better = count(0, -1)
    monkeypatch.setattr(finetuning, "error_of", lambda *_: next(ever_better))


def test_what_is_learnt_was_known_by_then(log: Trace) -> None:
    at = 600
    begin_ms = log.jobs["submit_ms"][at]
    is_later = pl.col("end_ms") >= begin_ms
    other = log.with_jobs(log.jobs.with_columns(end_ms=pl.col("end_ms") + is_later * 9_000_000))
    share = (at + 0.5) / len(log)
    shipped = Model.load()
    first, second = (relearn_runs(each, shipped, [share])[at].weights for each in (log, other))
    for name, weight in first.items():
        np.testing.assert_array_equal(weight, second[name])
    assert any((weight != shipped.towers[Task.RUN].weights[name]).any() for name, weight in first.items())


def test_each_share_has_a_network_of_its_own(log: Trace) -> None:
    shares, progress = [0.5, 0.8], list[float]()
    towers = relearn_runs(log, Model.load(), shares, on_progress=progress.append)
    assert list(towers) == [450, 720]
    assert sum(progress) == pytest.approx(1)
    assert all(tower.task is Task.RUN for tower in towers.values())


def test_too_little_to_learn_from_is_told(log: Trace) -> None:
    with pytest.raises(InputError, match="can be learnt from"):
        relearn_runs(log, Model.load(), [0.05])
