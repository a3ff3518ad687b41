from __future__ import annotations

import numpy as np
import pytest

from presage.estimators.history.samples import Samples, student_quantile


def test_with_enough_samples_quantiles_are_order_statistics() -> None:
    nineteen = Samples([float(each) for each in range(1, 20)], factor=2.0)
    # Of n samples the k-th has the chance k / (n + 1): of 19, the 19th is p95, the 10th the median.
    assert nineteen.quantile(0.95) == 19
    assert nineteen.quantile(0.5) == 10
    assert nineteen.quantile(0.1) == 2
    nine = Samples([10.0, 20, 30, 40, 50, 60, 70, 80, 90], factor=2.0)
    assert nine.spread().as_dict() == {"p10": 10, "p50": 50, "p90": 90}
    assert nine.quantile(0.25) == pytest.approx(25)  # between the second and the third


def test_the_fewer_samples_the_wider() -> None:
    widths = []
    for count in (1, 2, 4, 8):
        spread = Samples([100.0] * count, factor=2.0).spread()
        assert spread.p50 == 100
        widths.append(spread.p90 / spread.p10)
    assert widths == sorted(widths, reverse=True)
    # One sample: 2 degrees of freedom, a factor of 2 at p90, and the sample's own error: t = 1.886, times √2.
    one = Samples([100.0], factor=2.0)
    assert one.quantile(0.9) == pytest.approx(100 * 2 ** (1.886 / 1.2816 * 2**0.5), rel=0.02)


def test_nothing_is_above_the_longest_limit_unless_a_sample_is() -> None:
    assert Samples([100.0, 110.0], factor=3.0, most=150).quantile(0.95) == 150
    assert Samples([100.0, 200.0], factor=3.0, most=150).quantile(0.95) == 200


# Tables of Student's distribution.
@pytest.mark.parametrize(
    ("freedom", "share", "value"), [(2, 0.9, 1.886), (2, 0.95, 2.920), (5, 0.95, 2.015), (30, 0.9, 1.310)]
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, share: float, value: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(value, rel=0.02)
    assert student_quantile(1 - share, freedom) == pytest.approx(-value, rel=0.02)


@pytest.mark.parametrize("count", [2, 5, 12, 40])
def test_intervals_hold_what_comes_next(count: int) -> None:
    rng = np.random.default_rng(count)
    runs = np.exp(rng.normal(8, 0.4, (2000, count + 1)))
    inside = above = 0
    for row in runs:
        samples = Samples(row[:-1].tolist(), factor=1.7)
        spread = samples.spread()
        inside += spread.p10 <= row[-1] <= spread.p90
        above += row[-1] > samples.quantile(0.95)
    # 80 % and 5 %, with 3 standard errors of 2,000 draws. Where there are too few samples for order statistics,
    # the width is not known and they are to be on the safe side: more than that may lie inside.
    assert inside / 2000 >= 0.77
    assert above / 2000 <= 0.066
    if count >= 20:
        assert inside / 2000 <= 0.83
        assert above / 2000 >= 0.034
