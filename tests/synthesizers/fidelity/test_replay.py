from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError
from presage.simulator.simulation import simulate
from presage.synthesizers.fidelity.replay import POLICIES, _jobs, _windows, at_load, replay_alike
from presage.traces import Machine, Manifest, Trace
from tests.synthesizers.fidelity.conftest import make_log

pytest.importorskip("numba")


def test_each_window_offers_the_load_that_is_wanted(log: Trace) -> None:
    jobs, dropped = _jobs(log, 128, gpus=False)
    assert dropped == 0
    for window in _windows(jobs, 200, 128, 0.75):
        span_ms = window.submit_ms[-1] - window.submit_ms[0]
        assert (window.run_ms * window.processors).sum() / (128 * span_ms) == pytest.approx(0.75, rel=1e-3)
        assert window.submit_ms[0] == 0


def test_windows_are_spread_and_overlap_by_half(log: Trace) -> None:
    jobs, _ = _jobs(log, 128, gpus=False)
    assert len(_windows(jobs, 200, 128, 0.75)) == 5
    assert _windows(jobs, 200, 128, 0.75)[-1].run_ms.tolist() == jobs.run_ms[400:].tolist()


def test_the_log_lies_within_its_own_windows(log: Trace, later: Trace) -> None:
    found = replay_alike(log, log, later, load=0.75)
    assert (found.resource, found.capacity, found.window_jobs, found.dropped) == ("processors", 128, 200, 0)
    assert len(found.outcomes) == 3 * len(POLICIES)
    for each in found.outcomes:
        assert each.inside
        assert each.windows_inside == 1.0
        assert each.low <= each.low_10 <= each.high_90 <= each.high
        assert len(each.real_windows) == 10


def test_it_is_what_the_simulator_says() -> None:
    log = make_log(180, seed=3)
    found = replay_alike(log, log, load=0.8).outcome("sjf+easy", "mean_wait_s")
    jobs, _ = _jobs(log, 128, gpus=False)
    first = at_load(jobs.select(slice(60)), 128, 0.8)
    assert first is not None
    moved = log.jobs[:60].with_columns(pl.Series("submit_ms", first.submit_ms))
    expected = simulate(Trace.create(moved, log.manifest), "sjf+easy").metrics.mean_wait_s
    assert found.windows[0] == pytest.approx(expected)


def test_a_trace_that_queues_more_is_outside(log: Trace) -> None:
    # All work of a window in few wide jobs, one after the other.
    rng = np.random.default_rng(0)
    wide = pl.Series("cpus_alloc", np.where(rng.random(len(log)) < 0.05, 128.0, 1.0))
    found = replay_alike(log, log.with_jobs(log.jobs.with_columns(wide)), load=0.75)
    outcome = found.outcome("fcfs+easy", "mean_wait_s")
    assert outcome.synthetic > outcome.high
    assert not outcome.inside


def test_jobs_that_do_not_fit_are_left_out_and_counted(log: Trace) -> None:
    huge = log.jobs.with_columns(
        cpus_alloc=pl.when(pl.int_range(pl.len()) < 7).then(4096.0).otherwise("cpus_alloc")
    )
    assert replay_alike(log, log.with_jobs(huge)).dropped == 7


def test_gpus_are_what_jobs_compete_for_where_there_are_some(log: Trace) -> None:
    jobs = log.jobs.with_columns(gpus_req=pl.when(pl.col("cpus_alloc") > 1).then(pl.col("cpus_alloc") / 8 + 0.3))
    trace = Trace.create(jobs.with_columns(pl.col("gpus_req").fill_null(0.0)), Manifest(machine=Machine(gpus=16)))
    found = replay_alike(trace, trace)
    assert (found.resource, found.capacity, found.dropped) == ("GPUs", 16, 0)


def test_a_machine_of_unknown_size(log: Trace) -> None:
    with pytest.raises(InputError, match="does not say how large"):
        replay_alike(Trace.create(log.jobs, Manifest()), log)


def test_too_few_jobs(log: Trace) -> None:
    with pytest.raises(InputError, match="too few jobs"):
        replay_alike(log, make_log(100))
