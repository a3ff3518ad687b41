from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from presage.synthesizers.sequence.calibration import Drawn, calibrate
from presage.synthesizers.sequence.forward import softmax


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


class Drawer:
    """Draws each field by its biases alone, and never repeats a job on purpose."""

    def __init__(self) -> None:
        self.fields, self.weights, self.hours = Fields(), Arrays(), np.zeros(168)
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


def test_repetition_is_favoured_where_the_log_has_more_of_it() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log.words[:, 1] = np.repeat(np.arange(80) % 3, 50)  # the same throughout each stream
    calibrate(drawer, log, drawer.draw, 1)
    assert drawer.weights.arrays["fields.1.choice.bias"][0] > 1


def test_busy_hours_of_the_log_become_likelier() -> None:
    drawer = Drawer()
    log = drawer.draw()
    log = Drawn(log.words, log.begins, np.full(4000, 24 + 9.5))  # always at half past nine on a weekday
    calibrate(drawer, log, drawer.draw, 1)
    assert drawer.hours[9] == drawer.hours[24 + 9] > 1
    assert drawer.hours[10] < 0
    assert drawer.hours[5 * 24 + 9] < 0
