from __future__ import annotations

import numpy as np
import pytest

from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import JobHistory, history_of
from presage.simulator import simulate
from presage.traces import Trace
from presage.traces.workloads import make_model

JOBS = 1500


@pytest.fixture(scope="session")
def busy_trace() -> Trace:
    """A generated workload on 64 processors with the waits of FCFS and EASY backfilling."""
    model = make_model("lublin", {"users": 20, "estimate": "modal", "processors": 64, "load": 0.9})
    return simulate(model.generate(jobs=JOBS, seed=3), "fcfs+easy").trace


@pytest.fixture(scope="session")
def history(busy_trace: Trace) -> JobHistory:
    return history_of(busy_trace)


@pytest.fixture(scope="session")
def examples(history: JobHistory) -> Examples:
    later = in_between(history, 0.3, np.random.default_rng(0))
    return examples_of(history, Questions.merged(at_submits(history), later))
