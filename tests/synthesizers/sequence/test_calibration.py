from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.sequence.bins import Bins
from presage.synthesizers.sequence.calibration import Drawn, calibrate
from presage.synthesizers.sequence.fields import Fields
from presage.synthesizers.sequence.forward import softmax

SIZES = (22, 3, 20)
"""Words of the gap, of which the last two are of the first of a day; of the size; of the run time."""


def ranges(count: int) -> Bins:
    return Bins(np.arange(float(count)), np.arange(float(count)))


def fields() -> Fields:
    none = np.zeros(0)
    return Fields(("gap_s", "cpus", "run_s"), SIZES, ranges(20), ranges(2), ranges(20), none, none, none)


class Arrays:
    def __init__(self) -> None:
        self.arrays = {f"fields.{place}.own.bias": np.zeros(size, np.float32) for place, size in enumerate(SIZES)}
        self.arrays |= {f"fields.{place}.choice.bias": np.zeros(1, np.float32) for place in range(3)}


class Drawer:
    """Draws each field by its biases alone, and never repeats a job on purpose."""

    def __init__(self) -> None:
        self.fields, self.weights, self.hours = fields(), Arrays(), np.zeros(168)
        self.rng = np.random.default_rng(1)

    def draw(self) -> Drawn:
        shares = [softmax(self.weights.arrays[f"fields.{place}.own.bias"][None, :])[0] for place in range(3)]
        words = np.column_stack([self.rng.choice(len(share), 4000, p=share / share.sum()) for share in shares])
        return Drawn(words, np.arange(4000) % 50 == 0, self.rng.uniform(0, 168, 4000))


def test_words_that_were_too_rare_become_as_frequent_as_in_the_log() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, 1] = np.where(np.arange(4000) % 10 == 0, 2, 0)
    distances = calibrate(drawer, log, drawer.draw, 8)
    assert distances[0] > 0.15
    assert distances[-1] < 0.03
    shares = np.bincount(drawer.draw().words[:, 1], minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.9, 0.0, 0.1], atol=0.03)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_repetition_is_favoured_where_the_log_has_more_of_it(place: int) -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, place] = np.repeat(np.arange(80) % 3, 50)  # the same throughout each stream
    calibrate(drawer, log, drawer.draw, 1)
    biases = [float(drawer.weights.arrays[f"fields.{each}.choice.bias"][0]) for each in range(3)]
    assert biases[place] > 1
    assert all(abs(bias) < 0.2 for each, bias in enumerate(biases) if each != place)


def test_a_gap_is_repeated_by_one_about_as_long_of_the_same_day() -> None:
    first_of_a_day = 20
    words = np.zeros((6, 3), np.int64)
    words[:, 0] = [10, 18, 9, first_of_a_day, first_of_a_day, 12]
    counted, same = fields().repetitions(0, words[1:], words[:-1])
    assert counted.tolist() == [True, True, False, False, False]
    assert same.tolist() == [True, False, False, False, False]


def test_a_run_time_is_repeated_by_one_about_as_long_of_the_same_sort() -> None:
    words = np.array([[0, 1, 18], [0, 1, 10], [0, 1, 1], [0, 2, 1], [0, 2, 1]])
    counted, same = fields().repetitions(2, words[1:], words[:-1])
    assert counted.tolist() == [True, True, False, True]
    assert same.tolist() == [True, False, False, True]


def test_busy_hours_of_the_log_become_likelier() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log = Drawn(log.words, log.begins, np.full(4000, 24 + 9.5))  # always at half past nine on a weekday
    calibrate(drawer, log, drawer.draw, 1)
    assert drawer.hours[9] == drawer.hours[24 + 9] > 1
    assert drawer.hours[10] < 0
    assert drawer.hours[5 * 24 + 9] < 0
