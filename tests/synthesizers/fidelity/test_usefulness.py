from __future__ import annotations

import numpy as np
import pytest

from presage.errors import InputError
from presage.synthesizers.fidelity._figures import Unmeasured
from presage.synthesizers.fidelity._history import user_history
from presage.synthesizers.fidelity._jobs import job_frame
from presage.synthesizers.fidelity.usefulness import Transfer, _last_alike, _mean_before, measure_usefulness
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from tests.synthesizers.fidelity.conftest import make_log

pytest.importorskip("lightgbm")


def test_a_users_own_past_by_hand() -> None:
    rows = (("a", 1), ("a", 2), (None, 1), ("a", 1), ("b", 1))
    jobs = job_frame(make_trace(*(make_job(at, 0, 5, size, user=user) for at, (user, size) in enumerate(rows))))
    run = np.array([1.0, 2, 3, 4, 5])
    nan = np.nan
    assert np.array_equal(_mean_before(run, user_history(jobs)), [nan, 1.0, nan, 1.5, nan], equal_nan=True)
    assert np.array_equal(_last_alike(jobs, run), [nan, nan, nan, 1.0, nan], equal_nan=True)


def test_the_log_is_as_good_as_itself_and_noise_is_not(log: Trace, later: Trace) -> None:
    itself = measure_usefulness(log, log, later).run
    assert itself.ratio == 1.0
    assert itself.real_mae < itself.constant_mae
    noise = log.with_jobs(log.jobs.with_columns(log.jobs["run_s"].shuffle(seed=1)))
    assert measure_usefulness(log, noise, later).run.ratio > 1.2


def test_without_later_jobs_the_end_of_the_log_is_asked_about(log: Trace) -> None:
    found = measure_usefulness(log, log)
    assert found.jobs == 180
    assert "last 30%" in found.tested_on
    assert found.run.ratio < 1.0  # it has seen the answers


def test_waits_only_where_both_have_them(log: Trace, later: Trace) -> None:
    bare = log.with_jobs(log.jobs.with_columns(wait_s=None))
    found = measure_usefulness(log, bare, later)
    assert found.wait == Unmeasured("not known: no waits in the synthetic trace")
    assert found.as_dict()["wait"] == {"not_measured": "not known: no waits in the synthetic trace"}
    assert isinstance(measure_usefulness(log, log, later).wait, Transfer)


def test_too_few_jobs(log: Trace) -> None:
    with pytest.raises(InputError, match="too few jobs"):
        measure_usefulness(log, make_log(20))
