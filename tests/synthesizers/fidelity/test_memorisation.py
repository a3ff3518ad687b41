from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from presage.synthesizers.fidelity._jobs import job_frame
from presage.synthesizers.fidelity._nearest import Space
from presage.synthesizers.fidelity.memorisation import NO_REFERENCE, measure_memorisation
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from tests.synthesizers.fidelity.conftest import make_log, shuffled


def test_distances_by_hand() -> None:
    # Logarithms of run times 0 and 2 spread by 1; a queue that differs adds 1, and so does one that is unknown.
    log = job_frame(
        make_trace(make_job(0, 0, 0, queue="x"), make_job(1, 0, np.expm1(2), queue="y"), make_job(2, 0, 0))
    )
    base = log[:1]
    other = job_frame(make_trace(make_job(0, 0, 0, queue="z"), make_job(1, 0, np.expm1(2), queue="x")))
    space = Space.of(log[:2], ["run_s", "queue"])
    assert space.nearest(log, base) == pytest.approx([0.0, np.sqrt(4 + 1), 1.0])
    assert space.nearest(other, base) == pytest.approx([1.0, 2.0])
    assert space.nearest(other, log[:2]) == pytest.approx(
        [1.0, 1.0]
    )  # the second is like the log's but for its queue


def test_copies_by_hand() -> None:
    runs = (10, 20, 30, 40, 50)
    log = make_trace(*(make_job(at * 100, 0, run, user="a") for at, run in enumerate(runs)))
    made = make_trace(
        *(make_job(at * 70, 0, run, user=user) for at, (run, user) in enumerate(
            [(10, "a"), (20, "a"), (30, "a"), (40, "a"), (99, "a"), (10, "b")]
        ))
    )  # fmt: skip
    found = measure_memorisation(log, made).synthetic
    assert found.rows == pytest.approx(5 / 6)
    assert found.rows_and_gap == pytest.approx(1 / 6)  # the first ones, that have no gap
    assert found.sequences == pytest.approx(1 / 2)
    assert measure_memorisation(log, made, same_people=True).synthetic.rows == pytest.approx(4 / 6)


def test_what_many_jobs_of_the_log_have_is_no_rare_copy() -> None:
    log = make_trace(*(make_job(at * 100, 0, run) for at, run in enumerate([5] * 10 + [6] * 9)))
    made = make_trace(*(make_job(at * 70, 0, run) for at, run in enumerate([5, 5, 6, 7])))
    found = measure_memorisation(log, made).synthetic
    assert found.rows == pytest.approx(3 / 4)
    assert found.rare == pytest.approx(1 / 4)


def test_a_log_that_repeats_itself_has_copies_in_its_halves_though_later_jobs_have_none() -> None:
    log = make_trace(*(make_job(at * 100, 0, 5 + at % 3, user="a") for at in range(800)))
    later = make_trace(*(make_job(at * 100, 0, 500 + at, user="b") for at in range(200)))
    found = measure_memorisation(log, log, later, same_people=True)
    assert found.natural.rows == 0.0
    assert found.halves.rows == 1.0


def test_a_copy_of_the_log_gives_it_away(log: Trace, later: Trace) -> None:
    found = measure_memorisation(log, log, later)
    assert (found.synthetic.rows, found.synthetic.rows_and_gap, found.synthetic.sequences) == (1.0, 1.0, 1.0)
    assert found.distance == 0.0
    assert found.nearer > 0.85
    assert found.membership_auc > 0.85
    assert found.natural.sequences < 0.05


def test_shuffled_rows_are_copies_but_no_sequences(log: Trace, later: Trace) -> None:
    found = measure_memorisation(log, shuffled(log), later)
    assert found.synthetic.rows == 1.0
    assert found.synthetic.sequences < 0.05
    assert found.membership_auc > 0.8


def test_fresh_jobs_of_the_same_kind_give_nothing_away(log: Trace, later: Trace) -> None:
    fresh = make_log(600, seed=9)
    found = measure_memorisation(log, fresh, later)
    assert found.synthetic.rows == pytest.approx(found.natural.rows, abs=0.06)
    assert found.nearer == pytest.approx(0.5, abs=0.06)
    assert found.membership_auc == pytest.approx(0.5, abs=0.06)
    assert found.drift_auc == pytest.approx(0.5, abs=0.06)


def test_drift_is_seen_where_there_is_no_memory(log: Trace) -> None:
    changed = make_log(600, seed=1)
    changed = changed.with_jobs(changed.jobs.with_columns(pl.col("run_s") * 30 + 1))
    found = measure_memorisation(log, make_log(600, seed=9), changed)
    assert found.drift_auc > 0.8
    assert found.membership_auc == pytest.approx(found.drift_auc, abs=0.06)


def test_jobs_that_were_held_out_come_before_later_ones(log: Trace, later: Trace) -> None:
    found = measure_memorisation(log, log, later, held_out=make_log(300, seed=7))
    assert found.reference == "jobs held out of the log"
    alone = measure_memorisation(log, log)
    assert alone.reference == NO_REFERENCE
    assert np.isnan([alone.membership_auc, alone.nearer, alone.natural.rows]).all()
