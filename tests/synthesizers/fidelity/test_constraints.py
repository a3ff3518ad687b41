from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.fidelity.constraints import count_violations
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace


def test_what_is_broken_is_counted() -> None:
    real = make_trace(make_job(0, 0, 50, 2, limit_s=60.0), make_job(5, 0, 50, 4, limit_s=60.0), cpus=8)
    made = make_trace(
        make_job(0, 0, 186, 2, limit_s=60.0),  # 1.1 x 60 + 120: just allowed
        make_job(1, 0, 187, 2, limit_s=60.0),
        make_job(2, 0, 9, 3, limit_s=60.0),
        make_job(3, 0, 9, 16),
    )
    found = count_violations(real, made).synthetic
    assert found.over_limit == pytest.approx(1 / 3)
    assert found.new_sizes == pytest.approx(2 / 4)
    assert found.too_large == pytest.approx(1 / 4)
    assert found.bad_times == 0.0


def test_times_that_cannot_be(log: Trace) -> None:
    rows = [make_job(0, 0, 5), make_job(1, 0, 5), make_job(2, 0, 5), make_job(3, 0, 5)]
    rows[1]["run_s"], rows[2]["wait_s"] = -5.0, -1.0
    trace = make_trace(*rows)
    assert count_violations(log, trace).synthetic.bad_times == pytest.approx(2 / 4)
    backwards = trace.with_jobs(make_trace(*rows[:1], *rows[3:]).jobs.reverse())
    assert count_violations(log, backwards).synthetic.bad_times == pytest.approx(1 / 2)


def test_a_log_keeps_to_itself(log: Trace) -> None:
    found = count_violations(log, log)
    assert found.real == found.synthetic
    assert (found.real.over_limit, found.real.new_sizes, found.real.too_large) == (0.0, 0.0, 0.0)


def test_without_machine_limits_and_sizes_nothing_is_known() -> None:
    bare = make_trace({"submit_ms": 0, "run_s": 5.0}, {"submit_ms": 9, "run_s": 5.0})
    found = count_violations(bare, bare).synthetic
    assert np.isnan([found.over_limit, found.new_sizes, found.too_large]).all()
