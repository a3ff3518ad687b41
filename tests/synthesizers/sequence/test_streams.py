from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.sequence import streams as streams_module
from presage.synthesizers.sequence.streams import DAY_S, WEEK_S, calendar_from, cut

MONDAY_MS = 4 * DAY_S * 1000  # the first Monday of 1970, UTC


def test_weeks_begin_on_monday_where_the_machine_stands() -> None:
    berlin = calendar_from(MONDAY_MS, MONDAY_MS + 1000, "Europe/Berlin")
    assert berlin.monday_ms == MONDAY_MS - 3_600_000
    assert berlin.first_s == 3600


def test_a_trace_from_wednesday_noon_to_thursday_uses_one_and_a_half_days() -> None:
    noon_ms = MONDAY_MS + int(2.5 * DAY_S) * 1000
    calendar = calendar_from(noon_ms, noon_ms + int(1.0 * DAY_S) * 1000 - 1000, "UTC")
    np.testing.assert_allclose(calendar.open_days(), [[0, 0, 0.5, 0.5, 0, 0, 0]])
    assert calendar.weeks == 1


def test_streams_are_users_in_the_order_of_arrival() -> None:
    submit_ms = MONDAY_MS + np.array([0, 1, 2, DAY_S, 9 * DAY_S]) * 1000
    streams = cut(submit_ms, np.array([1, 0, 1, 0, 1]), calendar_from(MONDAY_MS, int(submit_ms[-1]), "UTC"))
    # One of two users has more than half of the jobs, so weeks are apart.
    assert streams.span_days == 7
    assert [streams.order[a:b].tolist() for a, b in zip(streams.first[:-1], streams.first[1:], strict=True)] == [
        [1, 3], [0, 2], [4],
    ]  # fmt: skip
    assert streams.user.tolist() == [0, 1, 1]
    assert streams.day.tolist() == [0, 1, 0, 0, 9]


@pytest.mark.parametrize(("users", "apart"), [([0, 1, 0, 1], False), ([0, 0, 0, 0], True)])
def test_jobs_of_nobody_in_particular_are_cut_by_weeks(users: list[int], apart: bool) -> None:
    submit_ms = MONDAY_MS + np.arange(4) * WEEK_S * 1000
    streams = cut(submit_ms, np.array(users), calendar_from(MONDAY_MS, int(submit_ms[-1]), "UTC"))
    assert (streams.span_days == 7) is apart
    assert len(streams.user) == (4 if apart else 2)


def test_a_user_too_busy_for_a_week_begins_anew_every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "LONGEST", 3)
    submit_ms = MONDAY_MS + np.repeat(np.arange(2), 4) * DAY_S * 1000
    streams = cut(submit_ms, np.zeros(8, np.int64), calendar_from(MONDAY_MS, int(submit_ms[-1]), "UTC"))
    assert streams.span_days == 1
    assert streams.jobs.tolist() == [4, 4]


def test_jobs_by_day_count_and_weigh() -> None:
    submit_ms = MONDAY_MS + np.array([0, 10, DAY_S]) * 1000
    streams = cut(submit_ms, np.array([0, 1, 1]), calendar_from(MONDAY_MS, int(submit_ms[-1]), "UTC"))
    assert streams.jobs_by_day(7)[:, :2].tolist() == [[1, 0], [1, 1]]
    assert streams.jobs_by_day(7, np.array([5.0, 2.0, 3.0]))[:, :2].tolist() == [[5, 0], [2, 3]]
