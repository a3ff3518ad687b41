from __future__ import annotations

import numpy as np

from presage.synthesizers.fidelity._history import jobs_within, lagged, user_history
from presage.synthesizers.fidelity._jobs import job_frame
from presage.testing.traces import make_job, make_trace

MINUTE_S = 60
# Two people in turns, and somebody unknown; b comes back after more than an hour.
JOBS = (("a", 0), ("b", 1), ("a", 10), (None, 11), ("a", 40), ("b", 90), (None, 91), ("b", 91))


def history_of(*jobs: tuple[str | None, int]) -> object:
    return user_history(job_frame(make_trace(*(make_job(at * MINUTE_S, 0, 5, user=user) for user, at in jobs))))


def test_every_job_knows_its_users_job_before() -> None:
    past = history_of(*JOBS)
    assert past.previous.tolist() == [-1, -1, 0, -1, 2, 1, -1, 5]
    assert past.earlier.tolist() == [0, 0, 1, 0, 2, 1, 0, 2]
    assert past.last_hour.tolist() == [0, 0, 1, 0, 2, 0, 0, 1]
    assert past.last_day.tolist() == [0, 0, 1, 0, 2, 1, 0, 2]


def test_a_session_ends_after_twenty_minutes() -> None:
    past = history_of(*JOBS)
    assert past.place.tolist() == [0, 0, 1, 0, 0, 0, 0, 1]
    assert past.session[0] == past.session[2] != past.session[4]
    assert len({past.session[3], past.session[6]}) == 2  # two jobs of unknown people are no session


def test_values_of_the_jobs_before() -> None:
    past = history_of(*JOBS)
    values = np.arange(8.0)
    assert past.before(values)[4] == 2.0
    assert past.before(values, 2)[4] == 0.0
    assert np.isnan(past.before(values, 3)[4])
    assert np.isnan(past.before(values)[[0, 1, 3, 6]]).all()


def test_lags_and_counts_on_the_whole_machine() -> None:
    assert np.array_equal(lagged(np.array([1.0, 2, 3]), 2), [np.nan, np.nan, 1.0], equal_nan=True)
    assert jobs_within(np.array([0, 10, 10, 25]), 15).tolist() == [0, 1, 2, 2]
