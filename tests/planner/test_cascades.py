from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from presage.planner.cascades import (
    MOST_JOBS,
    Night,
    Overheads,
    Piece,
    Queueing,
    Slot,
    jobs_needed,
    longest_run,
    schedule,
    split,
)

HOUR = 3600.0
NONE = Overheads(0, 0, 0)

overheads = st.builds(
    Overheads,
    save_s=st.floats(0, 1800),
    restart_s=st.floats(0, 1800),
    warning_s=st.floats(0, 1800),
    startup_s=st.floats(0, 600),
)
limits = st.floats(600, 200 * HOUR)
runs = st.floats(0, 2000 * HOUR)


def test_thirty_hours_under_a_limit_of_a_day_are_two_jobs() -> None:
    pieces = split(30 * HOUR, 24 * HOUR, Overheads(save_s=60, restart_s=120, warning_s=300))
    first = 24 * HOUR - 300
    assert pieces == (Piece(first, first + 60), Piece(30 * HOUR - first, 30 * HOUR - first + 120))


def test_a_run_within_the_limit_is_one_job() -> None:
    whole = 24 * HOUR - 120  # for then it is told to save
    assert split(whole, 24 * HOUR, Overheads(warning_s=120)) == (Piece(whole, whole),)
    assert len(split(whole + 1, 24 * HOUR, Overheads(warning_s=120))) == 2
    assert split(5 * HOUR, None, Overheads(startup_s=60)) == (Piece(5 * HOUR, 5 * HOUR + 60),)
    assert len(split(24 * HOUR + 1, 24 * HOUR, NONE)) == 2


def test_a_job_that_goes_on_from_a_checkpoint_has_less_time() -> None:
    assert jobs_needed(24 * HOUR, 24 * HOUR, Overheads(), restarted=True) == 2
    assert split(HOUR, 24 * HOUR, Overheads(restart_s=120), restarted=True) == (Piece(HOUR, HOUR + 120),)


def test_what_no_number_of_jobs_can_do() -> None:
    assert jobs_needed(HOUR, 200, Overheads(restart_s=120, warning_s=120)) is None
    assert split(HOUR, 200, Overheads(restart_s=120, warning_s=120)) == ()
    assert jobs_needed((MOST_JOBS + 1) * HOUR, HOUR, NONE) is None
    assert jobs_needed(MOST_JOBS * HOUR, HOUR, NONE) == MOST_JOBS
    assert jobs_needed(1e300, HOUR, NONE) is None


@given(runs, limits, overheads, st.booleans())
def test_the_work_of_the_pieces_is_the_run_and_no_piece_passes_the_limit(
    run_s: float, limit_s: float, costs: Overheads, restarted: bool
) -> None:
    pieces = split(run_s, limit_s, costs, restarted=restarted)
    assume(pieces)
    assert sum(piece.work_s for piece in pieces) == pytest.approx(run_s)
    begun = len(pieces) - 1 + restarted
    extra = len(pieces) * costs.startup_s + begun * costs.restart_s + (len(pieces) - 1) * costs.save_s
    assert sum(piece.elapsed_s for piece in pieces) == pytest.approx(run_s + extra)
    assert all(piece.work_s >= -1e-3 and piece.elapsed_s <= limit_s + 1e-3 for piece in pieces)
    assert pieces[-1].elapsed_s + costs.reserve_s <= limit_s + 1e-3
    assert len(pieces) == jobs_needed(run_s, limit_s, costs, restarted=restarted)


@given(limits, overheads, st.booleans())
def test_the_longest_run_can_be_done(limit_s: float, costs: Overheads, restarted: bool) -> None:
    longest = longest_run(limit_s, costs, restarted=restarted)
    assert longest <= 0 or split(longest, limit_s, costs, restarted=restarted)
    assert not split(longest + 1, limit_s, costs, restarted=restarted)


def test_waits_overlap_with_runs() -> None:
    pieces = (Piece(HOUR, HOUR), Piece(HOUR, HOUR), Piece(HOUR, HOUR))
    slots = schedule(pieces, 2 * HOUR, HOUR / 2, Queueing())
    assert slots == [
        Slot(0, 2 * HOUR, 3 * HOUR),
        Slot(2.5 * HOUR, 3 * HOUR, 4 * HOUR),
        Slot(3.5 * HOUR, 4 * HOUR, 5 * HOUR),
    ]


def test_only_what_a_wait_is_longer_than_a_run_is_lost() -> None:
    pieces = (Piece(HOUR, HOUR), Piece(HOUR, HOUR))
    assert schedule(pieces, 0, 3 * HOUR, Queueing())[-1] == Slot(0, 3 * HOUR, 4 * HOUR)
    alone = schedule(pieces, 0, 3 * HOUR, Queueing(overlaps=False))
    assert alone[-1] == Slot(HOUR, 4 * HOUR, 5 * HOUR)
    assert schedule(pieces, 0, 0, Queueing(ready_s=60))[0] == Slot(60, 60, 60 + HOUR)


@pytest.mark.parametrize(
    ("hour", "waits_h"), [(19, 1.0), (20, 0.0), (23, 0.0), (3, 0.0), (7, 0.0), (8, 5.0), (12, 5.0), (16, 4.0)]
)
def test_jobs_wait_for_the_night_or_for_their_turn(hour: int, waits_h: float) -> None:
    night = Night(20, 8, wait_s=0)
    moment = datetime(2026, 3, 2, hour, tzinfo=UTC)
    assert night.wait_at(moment, 5 * HOUR) == waits_h * HOUR


def test_hours_after_midnight_are_a_night_too() -> None:
    night = Night(1, 5, wait_s=60)
    assert night.wait_at(datetime(2026, 3, 2, 2, tzinfo=UTC), HOUR) == 60
    assert night.wait_at(datetime(2026, 3, 2, 23, tzinfo=UTC), 9 * HOUR) == 2 * HOUR + 60
    assert night.wait_at(datetime(2026, 3, 2, 5, tzinfo=UTC), HOUR) == HOUR


@given(
    st.lists(st.floats(60, 10 * HOUR), min_size=1, max_size=8),
    st.floats(0, 50 * HOUR),
    st.floats(0, 50 * HOUR),
    st.booleans(),
    st.integers(0, 23),
    st.integers(1, 23),
)
def test_nothing_overtakes_anything_in_a_queue(
    elapsed: list[float], wait_s: float, later_s: float, overlaps: bool, begins: int, hours: int
) -> None:
    now = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    night = Night(begins, (begins + hours) % 24)
    pieces = tuple(Piece(each, each) for each in elapsed)
    slots = schedule(pieces, wait_s, later_s, Queueing(overlaps=overlaps, night=night, now=now))
    by_day = schedule(pieces, wait_s, later_s, Queueing(overlaps=overlaps))
    for before, after in pairwise(slots):
        assert after.start_s >= before.end_s
        assert after.submit_s >= (before.start_s if overlaps else before.end_s)
    assert all(slot.submit_s <= slot.start_s <= slot.end_s for slot in slots)
    assert slots[-1].end_s <= by_day[-1].end_s + 1e-6
