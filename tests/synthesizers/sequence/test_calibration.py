from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from presage.synthesizers.sequence.calibration import Drawn, _habits, calibrate
from presage.synthesizers.sequence.forward import pick, softmax

if TYPE_CHECKING:
    from presage.synthesizers.columns import IntArray


@dataclass
class Fields:
    sizes: tuple[int, ...] = (2, 3, 2)
    sort: tuple[int, ...] = (1,)


class Arrays:
    def __init__(self) -> None:
        self.arrays = {
            f"fields.{place}.own.bias": np.zeros(size, np.float32) for place, size in enumerate((2, 3, 2))
        }
        self.arrays |= {f"fields.{place}.choice.bias": np.zeros(1, np.float32) for place in range(3)}
        # Of two users, and of somebody unknown.
        self.arrays |= {f"usual.{place}": np.zeros((3, size), np.float32) for place, size in enumerate((2, 3, 2))}


class Drawer:
    """Draws each field by its biases and what the user usually does, and never repeats a job on purpose."""

    def __init__(self) -> None:
        self.fields, self.weights, self.hours = Fields(), Arrays(), np.zeros(168)
        self.rng = np.random.default_rng(1)

    def draw(self) -> Drawn:
        user = np.arange(4000) // 50 % 2
        words = np.column_stack([self.words(place, user) for place in range(3)])
        return Drawn(words, np.arange(4000) % 50 == 0, self.rng.uniform(0, 168, 4000), user)

    def words(self, place: int, user: IntArray) -> IntArray:
        arrays = self.weights.arrays
        return pick(
            softmax(arrays[f"fields.{place}.own.bias"] + arrays[f"usual.{place}"][user]), self.rng.random(4000)
        )


def test_words_that_were_too_rare_become_as_frequent_as_in_the_log() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, 1] = np.where(np.arange(4000) % 10 == 0, 2, 0)
    distances = calibrate(drawer, log, drawer.draw, 8)
    assert distances[0] > 0.15
    assert distances[-1] < 0.03
    shares = np.bincount(drawer.draw().words[:, 1], minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.9, 0.0, 0.1], atol=0.03)


def test_repetition_is_favoured_where_the_log_has_more_of_it() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, 1] = np.repeat(np.arange(80) % 3, 50)  # the same throughout each stream
    calibrate(drawer, log, drawer.draw, 1)
    assert drawer.weights.arrays["fields.1.choice.bias"][0] > 1


def test_busy_hours_of_the_log_become_likelier() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log = replace(log, hours=np.full(4000, 24 + 9.5))  # always at half past nine on a weekday
    calibrate(drawer, log, drawer.draw, 1)
    assert drawer.hours[9] == drawer.hours[24 + 9] > 1
    assert drawer.hours[10] < 0
    assert drawer.hours[5 * 24 + 9] < 0


def test_users_get_back_what_they_do_in_the_log() -> None:
    drawer = Drawer()
    log = drawer.draw()
    assert log.user is not None
    log.words[:, 1] = np.where(log.user == 0, 0, 2)
    log.words[:, 2] = log.user
    calibrate(drawer, log, drawer.draw, 8)
    drawn = drawer.draw()
    for user, word in ((0, 0), (1, 2)):
        assert (drawn.words[drawn.user == user, 1] == word).mean() > 0.95
        assert (drawn.words[drawn.user == user, 2] == user).mean() > 0.95
    assert not drawer.weights.arrays["usual.1"][2].any()  # nothing is known of somebody unknown


def test_nobody_gets_habits_where_none_are_to_be_known() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, 1] = np.where(log.user == 0, 0, 2)
    calibrate(drawer, replace(log, user=None), drawer.draw, 1)
    assert not drawer.weights.arrays["usual.1"].any()


def test_run_times_of_a_user_are_compared_by_kinds_of_them() -> None:
    ranges = np.arange(24)
    log, drawn = (
        Drawn(np.column_stack([runs] * 3), runs < 0, runs * 1.0, np.zeros(len(runs), np.int64))
        for runs in (ranges.repeat(200), ranges.repeat(np.where(ranges < 12, 300, 100)))
    )
    np.testing.assert_allclose(_habits(log, drawn, 2, (2, 24)), 0, atol=0.01)  # one is all: the biases see to it
    log, drawn = (replace(each, user=each.words[:, 2] % 5 // 3) for each in (log, drawn))
    likelier = _habits(log, drawn, 2, (3, 24))
    assert likelier.any()
    assert (likelier[:, ::2] == likelier[:, 1::2]).all()  # of 24 ranges, two are of one kind


def test_biases_end_at_the_mean_of_the_later_rounds() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:] = np.arange(4000)[:, None] % 2
    shares_of_ones = [0.9, 0.2, 0.7, 0.4]
    traces = iter(shares_of_ones)

    def draw() -> Drawn:
        return replace(log, words=log.words * 0 + (np.arange(4000) < 4000 * next(traces))[:, None])

    calibrate(drawer, log, draw, 4)
    doubt = 5 / 4000
    moves = [
        0.8 / (1 + 0.5 * place) * np.log((0.5 + doubt) / (share + doubt))
        for place, share in enumerate(shares_of_ones)
    ]
    after = np.cumsum(moves)
    assert drawer.weights.arrays["fields.0.own.bias"][1] == pytest.approx((after[2] + after[3]) / 2, rel=1e-5)


def test_without_rounds_nothing_is_moved() -> None:
    drawer = Drawer()
    assert calibrate(drawer, drawer.draw(), drawer.draw, 0) == []
    assert not any(array.any() for array in drawer.weights.arrays.values())
