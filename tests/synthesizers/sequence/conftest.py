from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import SYNTHESIZERS, Training
from presage.synthesizers.sequence.model import SequenceModel
from presage.testing import make_job, make_trace
from presage.traces import Trace

DAY_S = 86_400
SMALL = {"epochs": 12, "width": 12, "hidden": 24, "ranges": 24, "calibration": 2, "batch": 32}


@pytest.fixture(scope="session")
def habits() -> Trace:
    """Four weeks: ann repeats small jobs in the morning, bob large ones by night, eve comes once a week."""
    rng = np.random.default_rng(3)
    rows = []
    for day in range(28):
        for start_h, jobs, user, size, limit_s in (
            (9, 6, "ann", 2, 600.0), (22, 2, "bob", 32, 7200.0), (14, int(day % 7 == 3), "eve", 8, 3600.0)
        ):  # fmt: skip
            at_s = day * DAY_S + start_h * 3600 + rng.integers(0, 1800)
            for _ in range(jobs):
                run_s = float(np.rint(limit_s * rng.uniform(0.4, 0.6)))
                rows.append(make_job(at_s, 0, run_s, size, user=user, limit_s=limit_s, queue="q"))
                at_s += int(rng.integers(30, 300))
    # The first day of 1970 was a Thursday: four days later it is Monday.
    shifted = [{**row, "submit_ms": row["submit_ms"] + 4 * DAY_S * 1000} for row in rows]
    return make_trace(*sorted(shifted, key=lambda row: row["submit_ms"]), cpus=64)


@pytest.fixture(scope="session")
def model(habits: Trace) -> SequenceModel:
    pytest.importorskip("torch")
    trained = SYNTHESIZERS.get("sequence").train(habits, SMALL, Training(seed=1))
    assert isinstance(trained, SequenceModel)
    return trained
