from __future__ import annotations

import numpy as np
import pytest

from presage.testing import make_job, make_trace
from presage.traces import Trace


@pytest.fixture(scope="session")
def two_worlds() -> Trace:
    """400 jobs of two sorts: wide ones of an hour in the queue `long`, serial ones of a minute in `short`."""
    rng = np.random.default_rng(7)
    long = rng.random(400) < 0.3
    submit_s = np.cumsum(np.rint(rng.exponential(300, 400)))
    run_s = np.rint(np.where(long, rng.lognormal(8.2, 0.1, 400), rng.lognormal(4.1, 0.1, 400)))
    rows = [
        make_job(
            submit_s[place], 0, run_s[place], 16 if long[place] else 1,
            queue="long" if long[place] else "short", user="ann" if place % 3 else "bob",
        )
        for place in range(400)
    ]  # fmt: skip
    return make_trace(*rows, cpus=64)
