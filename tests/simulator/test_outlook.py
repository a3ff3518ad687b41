from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UnknownNameError, UsageError
from presage.simulator import Outlook, present_state, simulate, what_comes
from presage.simulator.remaining import run_times
from presage.testing import make_job, make_trace
from presage.traces import Trace

from .test_present import unfinished
from .test_whatif import busy_trace

NOW_MS = 1_000_000


def cluster(*more: dict[str, Any], history: int = 0, cpus: float = 4) -> Trace:
    """4 processors at 1000 s: a job runs on 3 since 900 s, and three jobs wait; all asked for 400 s.

    Of the finished jobs every other one used a half of its limit, and every other one a quarter.
    """
    finished = [
        make_job(n, 0, 100 if n % 2 else 50, 1, limit_s=200.0, user="ada", outcome="completed")
        for n in range(history)
    ]
    present = [
        unfinished(800, 900, limit_s=400.0, cpus_alloc=3.0, user="bob"),
        unfinished(850, limit_s=400.0, cpus_req=4.0, user="bob"),
        unfinished(860, limit_s=400.0, cpus_req=1.0, user="ada"),
        unfinished(1000, limit_s=100.0, cpus_req=1.0, user="eve"),
    ]
    names = [f"h{n}" for n in range(history)] + ["runs", "wide", "narrow", "short"]
    named = [{"job_id": name, **job} for name, job in zip(names, [*finished, *present], strict=True)]
    return make_trace(*named, *more, cpus=cpus)


def starts(trace: Trace, **options: Any) -> dict[str, float]:
    """The median starts, in seconds from now."""
    jobs = what_comes(trace, now_ms=NOW_MS, **options).baseline.jobs
    return dict(zip(jobs["job_id"], jobs["start_p50_s"], strict=True))


def test_starts_are_those_computed_by_hand() -> None:
    # Everybody runs as asked: the running job ends in 300 s; EASY lets pass who ends by then.
    assert starts(cluster(), run_by="requested", policy="fcfs") == {"wide": 300, "narrow": 700, "short": 700}
    assert starts(cluster(), run_by="requested") == {"wide": 300, "narrow": 700, "short": 0}
    # Half of it: the running job ends in 100 s, the wide one runs for 200 s.
    assert starts(cluster(), run_by="50%", policy="fcfs") == {"wide": 100, "narrow": 300, "short": 300}
    # A fifth: it should have ended by now, so its limit is all that is known; the others run as said.
    assert starts(cluster(), run_by="20%", policy="fcfs") == {"wide": 300, "narrow": 380, "short": 380}


def test_predictions_can_be_a_column() -> None:
    trace = cluster()
    guessed = trace.with_jobs(trace.jobs.with_columns(x_guess=pl.Series([150.0, 10, 20, 30])))
    assert starts(guessed, run_by="x_guess", policy="fcfs") == {"wide": 50, "narrow": 60, "short": 60}
    lacking = trace.with_jobs(trace.jobs.with_columns(x_guess=pl.Series([None, 10.0, 20, 30])))
    assert starts(lacking, run_by="x_guess", policy="fcfs")["wide"] == 300


def test_history_gives_intervals() -> None:
    outlook = what_comes(cluster(history=40), now_ms=NOW_MS, policy="fcfs", samples=400)
    assert outlook.samples == 400
    # bob's jobs go by all: a quarter (ends now, which cannot be for one that runs) or a half of the limit.
    wide = outlook.baseline.starts("wide")
    assert (wide.p10, wide.p50, wide.p90) == (100, 100, 100)
    narrow = outlook.baseline.starts("narrow")
    assert (narrow.p10, narrow.p90) == (200, 300)
    assert outlook.baseline.drained_s.p90 == 300
    draws = outlook.baseline.remaining_wait_s
    assert {*np.round(draws, 6)} == {round(sum(each) / 3, 6) for each in [(100, 200, 200), (100, 300, 300)]}
    assert 0.4 < np.mean(draws == draws.min()) < 0.6


def test_users_with_enough_history_go_by_their_own() -> None:
    eager = [
        make_job(0, 0, 180, 1, limit_s=200.0, user="eve", outcome="completed", job_id=f"e{n}") for n in range(20)
    ]
    state = present_state(cluster(*eager, history=40), NOW_MS)
    runs = run_times(state, state.trace.jobs)
    drawn = np.array([runs.draw(0, sample) for sample in range(200)]) / 1000
    of = dict(zip(state.trace.jobs["job_id"], drawn.T, strict=True))
    assert {*of["short"]} == {90}
    assert {*of["narrow"]} == {100, 200}
    assert {*of["wide"]} == {100, 200, 360}
    assert {*of["runs"]} == {200, 360}
    fewer = present_state(cluster(*eager[:19], history=40), NOW_MS)
    again = run_times(fewer, fewer.trace.jobs)
    assert len({int(again.draw(0, sample)[3]) for sample in range(200)}) == 3


def test_the_jobs_of_one_user_have_the_same_chance() -> None:
    more = [
        unfinished(990, limit_s=400.0, cpus_req=1.0, user=user, job_id=f"{n}") for n, user in enumerate("aabb")
    ]
    nobody = [unfinished(990, limit_s=400.0, cpus_req=1.0, job_id=f"n{n}") for n in range(2)]
    state = present_state(cluster(*more, *nobody, history=40), NOW_MS)
    runs = run_times(state, state.trace.jobs)
    drawn = np.array([runs.draw(0, sample) for sample in range(100)])
    of = dict(zip(state.trace.jobs["job_id"], drawn.T, strict=True))
    assert np.array_equal(of["0"], of["1"])
    assert np.array_equal(of["2"], of["3"])
    assert not np.array_equal(of["0"], of["2"])
    assert not np.array_equal(of["n0"], of["n1"])


def test_jobs_without_a_limit_run_as_others_did() -> None:
    trace = make_trace(
        make_job(0, 0, 30, 1, outcome="completed"),
        make_job(0, 0, 500, 1, outcome="completed"),
        unfinished(900, 900, cpus_alloc=1.0),
        unfinished(950, cpus_req=1.0),
        cpus=1,
    )
    # It has run for 100 s, so of the two only the long one is left.
    outlook = what_comes(trace, now_ms=NOW_MS)
    assert outlook.baseline.starts("4").p50 == 400
    outlived = what_comes(trace, now_ms=2_000_000)
    assert outlived.baseline.starts("4").p50 == 1100 + 60
    alone = make_trace(unfinished(900, 900, cpus_alloc=1.0), unfinished(950, cpus_req=1.0), cpus=1)
    with pytest.raises(InputError, match="2 jobs will run cannot be told"):
        what_comes(alone)


def test_with_kill_jobs_end_at_their_limit_and_not_in_the_past() -> None:
    trace = make_trace(
        make_job(0, 0, 300, 1, limit_s=100.0, outcome="completed"),
        unfinished(700, 800, limit_s=100.0, cpus_alloc=1.0),
        unfinished(900, limit_s=100.0, cpus_req=1.0),
        unfinished(950, limit_s=100.0, cpus_req=1.0),
        cpus=1,
    )
    overrun = starts(trace, kill=False)
    assert overrun == {"3": 100, "4": 400}
    assert starts(trace, kill=True) == {"3": 0.001, "4": 100.001}


def test_variants_have_the_same_draws() -> None:
    trace = cluster(history=40)
    texts = ["same:", "x: processors=x2", "b: burst=5@1h", "l: limits=max=1min", "s: policy=sjf"]
    outlook = what_comes(trace, texts, now_ms=NOW_MS, policy="fcfs", samples=50)
    found = {variant.name: forecast for variant, forecast in outlook.variants}
    assert np.array_equal(found["same"].remaining_wait_s, outlook.baseline.remaining_wait_s)
    # Neither a later burst nor other limits, which strict order does not look at, changes any run time.
    assert np.array_equal(found["b"].remaining_wait_s, outlook.baseline.remaining_wait_s)
    assert np.array_equal(found["l"].remaining_wait_s, outlook.baseline.remaining_wait_s)
    assert outlook.change(found["x"]).p90 < 0
    assert found["x"].processors == 8
    assert found["b"].jobs["job_id"].to_list() == outlook.baseline.jobs["job_id"].to_list()


def test_answers_do_not_depend_on_processes_and_repeat() -> None:
    trace = cluster(history=40)

    def ask(seed: int, **options: Any) -> Outlook:
        return what_comes(trace, ["nodes=+50%"], now_ms=NOW_MS, samples=20, policy="fcfs", seed=seed, **options)

    answer = ask(3)
    assert ask(3, engine="local", workers=2).to_dict() == answer.to_dict()
    assert not np.array_equal(ask(4).baseline.remaining_wait_s, answer.baseline.remaining_wait_s)


def test_a_schedule_goes_on_as_it_would_have() -> None:
    """Stopped anywhere, with true run times and nobody to come, strict order starts all jobs as before."""
    whole = simulate(busy_trace(), "fcfs").trace
    known = whole.with_jobs(whole.jobs.with_columns(x_true=pl.col("run_s")))
    seen = 0
    for now_ms in range(600_000, 7_000_000, 900_000):
        state = present_state(known, now_ms)
        if not len(state.waiting):
            continue
        outlook = what_comes(known, now_ms=now_ms, run_by="x_true", policy="fcfs", samples=1)
        for job_id, start_s in outlook.baseline.jobs.select("job_id", "start_p50_s").iter_rows():
            expected = known.jobs.row(by_predicate=pl.col("job_id") == job_id, named=True)["start_ms"]
            assert now_ms + start_s * 1000 == pytest.approx(expected)
            seen += 1
    assert seen > 20


def test_mistakes_are_answered() -> None:
    trace = cluster()

    def ask(*variants: str, of: Trace = trace, **options: Any) -> None:
        what_comes(of, variants, now_ms=NOW_MS, **{"run_by": "requested", **options})

    with pytest.raises(InputError, match="hold 3 processors and the machine has 2"):
        ask("oversized=drop, processors=2")
    with pytest.raises(InputError, match="A job needs 4 processors"):
        ask("processors=3")
    for text in ("load=2", "arrivals=even", "limits=exact"):
        with pytest.raises(UsageError, match="still to come"):
            ask(text)
    with pytest.raises(UsageError, match="Run times cannot be taken from 'guess'"):
        ask(run_by="guess")
    with pytest.raises(UsageError, match="'0%'"):
        ask(run_by="0%")
    with pytest.raises(UsageError, match="0 draws"):
        ask(samples=0)
    with pytest.raises(UsageError, match="'a' is taken"):
        ask("a: nodes=+1%", "a: nodes=+2%")
    with pytest.raises(InputError, match=r"No job waits at .*--now"):
        ask(of=make_trace(make_job(0, 0, 5), cpus=1))
    with pytest.raises(InputError, match="of 1 it is not known when they ran"):
        ask(of=make_trace({"submit_ms": 0, "run_s": 5.0}, cpus=1))
    with pytest.raises(InputError, match="1 jobs have no size"):
        ask(of=make_trace(unfinished(0, limit_s=1.0), cpus=1))
    with pytest.raises(UnknownNameError, match="Did you mean 'wide'"):
        what_comes(trace, run_by="requested").baseline.starts("wid")


def test_oversized_jobs_leave_the_variant() -> None:
    outlook = what_comes(cluster(), ["small: processors=3, oversized=drop"], now_ms=NOW_MS, run_by="requested")
    ((_, small),) = outlook.variants
    assert small.jobs["job_id"].to_list() == ["narrow", "short"]
    assert not small.has("wide")
    assert small.starts("narrow").p50 == 300


@pytest.mark.shared_data
def test_most_intervals_cover_what_comes_on_a_real_log(shared_data: Path) -> None:
    """KTH under fcfs+easy at 12 instants with a queue; the truth is the simulation with the true run times.

    The truth knows of jobs that came later, the interval does not, so it covers less than 80 %.
    """
    from presage.traces import read_trace
    from presage.traces.cleaning import clean

    trace = clean(read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz", format="swf"), ["archive"])
    trace = simulate(trace, "fcfs+easy").trace
    waits = trace.jobs.filter(pl.col("wait_s") > 2 * 3600)
    covered: list[bool] = []
    for submit_ms in waits["submit_ms"].gather_every(len(waits) // 12).to_list()[:12]:
        outlook = what_comes(trace, now_ms=submit_ms + 1_800_000, samples=50)
        told = outlook.baseline.jobs.join(trace.jobs.select("job_id", "start_ms"), on="job_id")
        true_s = (told["start_ms"] - outlook.state.now_ms) / 1000
        covered += true_s.is_between(told["start_p10_s"], told["start_p90_s"]).to_list()
    assert len(covered) > 100
    assert np.mean(covered) > 0.5
