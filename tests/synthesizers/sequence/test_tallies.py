from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.sequence.model import SequenceModel
from presage.synthesizers.sequence.tallies import Tally

ANN, BOB = 0, 1


def tally() -> Tally:
    """Return one of two users with a size (1, 2 or 4) and a queue (a or b)."""
    shares = np.array([[0.5, 0.25, 0.25, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0, 0.0]])
    return Tally(shares, np.array([3, 2]), np.array([3, 2]), np.array([True, False]))


def drafts(*of_each: list[tuple[int, int]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return jobs, size and queue each, of several drafts: (jobs, drafts, fields)."""
    return np.array(of_each).transpose(1, 0, 2)


def test_the_excess_is_jobs_had_less_jobs_usual() -> None:
    excess = tally().after(ANN, drafts([(0, 0), (0, 1)], [(2, 0), (2, 0)]))
    np.testing.assert_allclose(excess, [[1, -0.5, -0.5, 0, 0], [-1, -0.5, 1.5, 1, -1]])


def test_distance_is_by_hand() -> None:
    """Of sizes the difference of distributions between usual ones; of queues half of all differences."""
    known = tally()
    excess = known.after(ANN, drafts([(0, 0), (0, 1)], [(2, 0), (2, 0)]))
    np.testing.assert_allclose(
        known.distance(ANN, excess), [0.375 * 1 + 0.25 * 0.5, 0.375 * 1 + 0.25 * 1.5 + 0.5 * (1 + 1)]
    )


def test_what_was_taken_up_is_made_good_by_others() -> None:
    known = tally()
    known.take_up(ANN, known.after(ANN, drafts([(0, 0)] * 4))[0])
    same, other = known.distance(ANN, known.after(ANN, drafts([(0, 0)] * 4, [(1, 1), (2, 1)] * 2)))
    assert other == pytest.approx(0)
    assert same > 1


def test_users_have_tallies_of_their_own() -> None:
    known = tally()
    known.take_up(ANN, known.after(ANN, drafts([(0, 0)] * 4))[0])
    np.testing.assert_allclose(known.after(BOB, drafts([(2, 0)])), np.zeros((1, 5)), atol=1e-12)


def test_users_of_whom_the_same_is_usual_share_one() -> None:
    """So do invented people, of whom nothing is known: together they are as everybody was, each need not be."""
    known = Tally(np.full((3, 2), 0.5), np.array([2]), np.array([2]), np.array([False]))
    words = np.zeros((1, 1, 1), np.int64)
    known.take_up(0, known.after(0, words)[0])
    np.testing.assert_allclose(known.after(-1, words), [[1, -1]])


@pytest.mark.parametrize("usual", range(4))
def test_numbers_that_are_too_low_are_as_far_away_as_those_that_are_too_high(usual: int) -> None:
    known = Tally(np.eye(4)[[usual]], np.array([4]), np.array([4]), np.array([True]))
    away = known.distance(0, known.after(0, np.arange(4).reshape(1, 4, 1)))
    assert away[usual] == 0
    assert np.delete(away, usual) == pytest.approx(0.5)


def test_how_often_a_block_comes_is_not_for_the_tally() -> None:
    """Gaps of first jobs of a day are a block by themselves: how many there are is the plan's."""
    known = Tally(np.array([[0.5, 0.5, 1.0]]), np.array([3]), np.array([2, 1]), np.array([True, True]))
    often, never = known.after(0, np.array([[0, 0], [1, 1], [2, 0], [2, 1]])[:, :, None])
    np.testing.assert_allclose(often, 0)
    np.testing.assert_allclose(never, 0)


def test_of_a_model_the_excess_of_each_field_adds_up_to_nothing(model: SequenceModel) -> None:
    known = Tally.of(model.drawer.weights, model.drawer.fields, model.columns)
    sizes = model.drawer.fields.sizes
    (excess,) = known.after(-1, np.zeros((3, 1, len(sizes)), np.int64))
    sums = [part.sum() for part in np.split(excess, np.cumsum(sizes)[:-1])]
    assert sums == pytest.approx([0.0] * len(sizes), abs=1e-6)
