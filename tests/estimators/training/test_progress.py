from __future__ import annotations

import math

import pytest

from presage.errors import UsageError
from presage.estimators import Spread
from presage.estimators.training.progress import Progress

THOUGHT = Spread.around(1000, 2)


def followed(*events: tuple[float, float], units: float = 100, prior: Spread = THOUGHT) -> Progress:
    progress = Progress(prior, units)
    for done, elapsed_s in events:
        progress.observe(done, elapsed_s)
    return progress


def steady(pace_s: float, upto: int, start_s: float = 50.0) -> list[tuple[float, float]]:
    return [(done, start_s + pace_s * done) for done in range(1, upto + 1)]


def test_before_the_first_event_it_is_what_was_thought() -> None:
    left = followed().remaining()
    assert left.p50 == pytest.approx(1000)
    assert left.p90 == pytest.approx(2000)


def test_the_pace_takes_over_from_what_was_thought() -> None:
    # Thought to take 10 s a step, takes 4; after 20 steps 80 are left.
    left = followed(*steady(4.0, 20)).remaining()
    assert left.p50 == pytest.approx(320, rel=0.02)
    early = followed(*steady(4.0, 2)).remaining()
    assert 4 * 98 < early.p50 < 10 * 98


def test_it_becomes_surer_as_it_goes() -> None:
    widths = [(left := followed(*steady(4.0, upto)).remaining()).p90 / left.p50 for upto in (1, 2, 5, 20, 60)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1.05


def test_the_start_says_nothing_of_the_pace() -> None:
    slow_start = followed(*steady(4.0, 20, start_s=500)).remaining()
    assert slow_start == followed(*steady(4.0, 20, start_s=5)).remaining()


def test_pauses_are_expected_to_come_again() -> None:
    # 4 s a step, and 40 s of validation after every tenth.
    events = [(done, 4.0 * done + 40.0 * ((done - 1) // 10)) for done in range(1, 52)]
    left = followed(*events).remaining()
    assert left.p50 == pytest.approx(49 * 8, rel=0.05)


def test_a_restart_from_a_checkpoint_keeps_the_pace_and_begins_to_count_anew() -> None:
    progress = followed(*steady(4.0, 30))
    progress.observe(20, 12.0)
    assert progress.restarts == 1
    assert progress.remaining().p50 == pytest.approx(80 * 4, rel=0.02)
    progress.observe(21, 60.0)  # warming up again
    progress.observe(22, 64.0)
    assert progress.remaining().p50 == pytest.approx(78 * 4, rel=0.02)


def test_time_since_the_last_event_has_passed() -> None:
    progress = followed(*steady(4.0, 20, start_s=0))
    assert progress.remaining(90.0).p50 == pytest.approx(progress.remaining().p50 - 10)
    assert progress.remaining(10_000.0) == Spread(0, 0, 0)


def test_when_all_is_done_nothing_is_left() -> None:
    assert followed(*steady(4.0, 100)).remaining() == Spread(0, 0, 0)
    assert followed(*steady(4.0, 20), (150, 600.0)).remaining() == Spread(0, 0, 0)


def test_an_event_without_news_changes_nothing() -> None:
    progress = followed(*steady(4.0, 20))
    before = progress.remaining()
    progress.observe(20, progress.elapsed_s)
    assert progress.remaining() == before
    assert progress.restarts == 0


@pytest.mark.parametrize("event", [(-1, 0), (math.nan, 1), (1, math.nan), (math.inf, 1), (1, -5), (1, math.inf)])
def test_what_is_no_progress_is_refused(event: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="no progress"):
        followed(event)


@pytest.mark.parametrize("units", [0, -1, math.nan, math.inf])
def test_a_training_without_steps_is_refused(units: float) -> None:
    with pytest.raises(UsageError, match="cannot be followed"):
        Progress(THOUGHT, units)


def test_a_prior_of_nothing_gives_way_to_what_is_seen() -> None:
    assert followed(*steady(4.0, 20), prior=Spread(0, 0, 10)).remaining().p50 == pytest.approx(320, rel=0.05)
