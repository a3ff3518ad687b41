from __future__ import annotations

import numpy as np
import pytest

from presage.errors import InputError
from presage.synthesizers.fidelity._boosting import area_under_curve
from presage.synthesizers.fidelity.two_sample import _spread_blocks, tell_apart
from presage.traces import Trace
from tests.synthesizers.fidelity.conftest import make_log, shuffled

pytest.importorskip("lightgbm")


def test_area_under_the_curve_by_hand() -> None:
    # Pairs of a positive and a negative: 3 > 1, 3 > 2, 2 > 1, 2 = 2.
    assert area_under_curve(np.array([3.0, 2, 1, 2]), np.array([1, 1, 0, 0])) == pytest.approx(3.5 / 4)


@pytest.mark.parametrize("sequences", [False, True])
def test_a_trace_cannot_be_told_from_itself(log: Trace, *, sequences: bool) -> None:
    assert tell_apart(log, log, sequences=sequences).auc == 0.5


def test_shuffled_rows_are_told_apart_only_by_what_came_before(log: Trace) -> None:
    mixed = shuffled(log)
    assert tell_apart(log, mixed).auc == pytest.approx(0.5, abs=0.08)
    found = tell_apart(log, mixed, sequences=True)
    assert found.auc > 0.9
    assert found.features > 20
    assert "user" not in " ".join(found.strongest).replace("same user", "")


def test_other_run_times_are_seen_in_single_rows(log: Trace) -> None:
    slower = log.with_jobs(log.jobs.with_columns(log.jobs["run_s"] * 20 + 7))
    found = tell_apart(log, slower)
    assert found.auc > 0.9
    assert found.strongest[0] == "run_s"


def test_names_of_people_do_not_matter(log: Trace) -> None:
    renamed = log.with_jobs(log.jobs.with_columns("z" + log.jobs["user"]))
    assert tell_apart(log, renamed, sequences=True).auc == 0.5


def test_equal_numbers_of_both_and_the_same_answer_again(log: Trace) -> None:
    short = make_log(250, seed=5)
    found = tell_apart(log, short, seed=3)
    assert found.jobs == 250
    assert found == tell_apart(log, short, seed=3)
    assert len(found.folds) == 5


def test_stretches_lie_over_the_whole_trace_without_overlap() -> None:
    places = _spread_blocks(1000, 100, 5)
    assert places[:20].tolist() == list(range(20))
    assert places[-1] == 999
    assert (np.diff(places) > 0).all()
    assert _spread_blocks(10, 10, 3).tolist() == list(range(10))


def test_too_few_jobs() -> None:
    few = make_log(60)
    with pytest.raises(InputError, match="only 60 jobs"):
        tell_apart(few, few)
