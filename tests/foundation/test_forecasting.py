from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UsageError
from presage.foundation.evaluation import evaluate
from presage.foundation.forecasting import JobForecast, forecast
from presage.foundation.live import JobRequest, LiveForecaster
from presage.foundation.mixture import GRID
from presage.foundation.model import Model
from presage.foundation.view import numbers
from presage.foundation.view.examples import Examples
from presage.foundation.view.jobs import OUTCOMES
from presage.foundation.view.tasks import Task
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import Outcome


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load()


@pytest.fixture(scope="module")
def now_ms(busy_trace: Trace) -> int:
    """An instant at which many jobs wait."""
    jobs = busy_trace.jobs
    waits = [
        (int(jobs.select(((pl.col("submit_ms") < at) & (pl.col("start_ms") > at)).sum()).item()), at)
        for at in jobs["submit_ms"].to_list()[600:1400:20]
    ]
    return max(waits)[1]


@pytest.mark.parametrize("task", Task)
def test_no_questions_have_no_answers(model: Model, examples: Examples, task: Task) -> None:
    curves, ends = model.towers[task].answers(examples, np.zeros(0, np.int64))

    assert curves.shape == (0, len(GRID))
    assert ends is None or ends.shape == (0, len(OUTCOMES))


def check(job: JobForecast) -> None:
    for spread, least_s in ((job.wait_s, job.waited_s), (job.run_s, job.ran_s)):
        if spread is not None:
            assert 0 <= spread.p10 <= spread.p50 <= spread.p90
            assert np.isfinite(spread.p90)
            assert spread.p90 >= 0.85 * least_s - 5 or job.stands == "running"
    assert sum(job.outcome.values()) == pytest.approx(1, abs=1e-3)


def test_waiting_and_running_jobs_are_forecast(busy_trace: Trace, model: Model, now_ms: int) -> None:
    result = forecast(busy_trace, model, now_ms=now_ms)
    jobs = busy_trace.jobs.filter(pl.col("submit_ms") <= now_ms)
    is_open = jobs.filter(pl.col("end_ms") > now_ms)

    assert {job.job_id for job in result.jobs} == set(is_open["job_id"])
    running = set(is_open.filter(pl.col("start_ms") <= now_ms)["job_id"])
    for job in result.jobs:
        check(job)
        assert (job.stands == "running") == (job.job_id in running) == (job.wait_s is None)


def test_what_comes_later_changes_nothing(busy_trace: Trace, model: Model, now_ms: int) -> None:
    known = pl.col("start_ms") <= now_ms
    done = pl.col("end_ms") <= now_ms
    cut = busy_trace.jobs.filter(pl.col("submit_ms") <= now_ms).with_columns(
        start_ms=pl.when(known).then("start_ms"),
        wait_s=pl.when(known).then("wait_s"),
        end_ms=pl.when(done).then("end_ms"),
        run_s=pl.when(done).then("run_s"),
        outcome=pl.when(done)
        .then("outcome")
        .when(known)
        .then(pl.lit("running"))
        .otherwise(pl.lit("pending"))
        .cast(busy_trace.jobs.schema["outcome"]),
    )

    assert (
        forecast(busy_trace.with_jobs(cut), model, now_ms=now_ms).jobs
        == forecast(busy_trace, model, now_ms=now_ms).jobs
    )


def test_a_smaller_request_does_not_wait_longer(busy_trace: Trace, model: Model, now_ms: int) -> None:
    asked = ["cpus=64, limit=24h, user=1", "cpus=1, limit=10min, user=1"]
    large, small = forecast(busy_trace, model, now_ms=now_ms, new_jobs=asked).jobs

    assert (large.job_id, small.job_id) == ("new-1", "new-2")
    assert large.wait_s is not None
    assert small.wait_s is not None
    assert small.wait_s.p50 < large.wait_s.p50


def test_requests_that_the_cluster_cannot_know_or_hold_are_told(
    busy_trace: Trace, model: Model, now_ms: int
) -> None:
    asked = ["partition=gpu, cpus=4", "cpus=4096, nodes=2", "cpus=4"]
    notes = forecast(busy_trace, model, now_ms=now_ms, new_jobs=asked).notes

    assert [note.partition(":")[0] for note in notes if note.startswith("new-")] == ["new-1", "new-2"]
    assert any("partition 'gpu'" in note for note in notes)
    assert any("4,096 processors are more than the machine has (64)" in note for note in notes)


def test_like_takes_everything_from_another_job(busy_trace: Trace, model: Model, now_ms: int) -> None:
    twin = busy_trace.jobs.filter(pl.col("submit_ms") <= now_ms)["job_id"][-1]
    row = busy_trace.jobs.filter(pl.col("job_id") == twin).row(0, named=True)
    plain = f"cpus={row['cpus_alloc'] or row['cpus_req']}, limit={row['limit_s']:.0f}s, user={row['user']}"
    first, _ = forecast(busy_trace, model, now_ms=now_ms, new_jobs=[f"like={twin}", plain]).jobs

    check(first)
    assert first.stands == "new"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpus", "described by"),
        ("colour=red", "described by"),
        ("cpus=-1", "cpus cannot be"),
        ("like=nobody", "no job"),
    ],
)
def test_descriptions_that_make_no_sense(busy_trace: Trace, model: Model, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        forecast(busy_trace, model, new_jobs=[text])


def test_a_finished_log_is_forecast_as_it_was_submitted(busy_trace: Trace, model: Model) -> None:
    result = forecast(busy_trace, model)

    assert len(result.jobs) == 100
    assert {job.stands for job in result.jobs} == {"submitted"}
    assert all(job.waited_s == 0 for job in result.jobs)


def test_unknown_and_ended_jobs_are_refused(busy_trace: Trace, model: Model, now_ms: int) -> None:
    with pytest.raises(UsageError, match="no job 'nobody'"):
        forecast(busy_trace, model, now_ms=now_ms, job_ids=["nobody"])
    with pytest.raises(UsageError, match="has ended"):
        forecast(busy_trace, model, now_ms=now_ms, job_ids=[busy_trace.jobs["job_id"][0]])


def few(count: int, **columns: object) -> Trace:
    return make_trace(*(make_job(60 * k, 30, 300, 2, user="ann", **columns) for k in range(count)), cpus=8)


@pytest.mark.parametrize("count", [1, 2, 20])
def test_few_jobs_of_one_user_get_a_forecast_that_says_so(model: Model, count: int) -> None:
    result = forecast(few(count), model)

    assert any("little is known" in note for note in result.notes)
    for job in result.jobs:
        check(job)


def test_a_log_without_waits_is_forecast_as_far_as_it_goes(model: Model) -> None:
    jobs = [
        {"submit_ms": 60_000 * k, "run_s": 100.0 + k, "cpus_req": 1.0, "outcome": "completed"} for k in range(60)
    ]
    result = forecast(make_trace(*jobs), model)

    assert any("no waits" in note for note in result.notes)
    assert all(job.wait_s is None for job in result.jobs)
    assert result.coverage["wait"] is None
    assert result.coverage["run"] is not None
    assert result.jobs[-1].run_s.p50 == pytest.approx(150, rel=0.5)


def test_times_that_run_backwards_are_bent(model: Model) -> None:
    jobs = [make_job(600 - 10 * k, -500 if k % 3 else 20, -100 if k % 4 else 50) for k in range(60)]
    result = forecast(make_trace(*jobs), model)

    assert any("before" in note for note in result.notes)
    for job in result.jobs:
        check(job)


def test_a_model_survives_its_file(tmp_path: object, model: Model, busy_trace: Trace, now_ms: int) -> None:
    path = f"{tmp_path}/copy.safetensors"
    model.save(path)

    assert (
        forecast(busy_trace, Model.load(path), now_ms=now_ms).jobs
        == forecast(busy_trace, model, now_ms=now_ms).jobs
    )


def test_files_that_are_no_models_are_refused(
    tmp_path: object, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = f"{tmp_path}/junk.safetensors"
    Path(junk).write_bytes(b"no model at all")
    with pytest.raises(InputError, match="not a model"):
        Model.load(junk)
    with pytest.raises(InputError, match="no model at"):
        Model.load(f"{tmp_path}/missing.safetensors")
    old = f"{tmp_path}/old.safetensors"
    model.save(old)
    monkeypatch.setattr(numbers, "VERSION", numbers.VERSION + 1)
    with pytest.raises(InputError, match="another version"):
        Model.load(old)


def test_evaluation_beats_what_needs_no_training(busy_trace: Trace, model: Model) -> None:
    figures = evaluate(busy_trace, model, baselines=["state-knn", "last-two", "user-ema"]).as_dict()

    assert figures["wait_log_mae"] < 1.0
    assert 0.65 < figures["wait_coverage_80"] < 0.95
    assert set(figures["baselines"]) == {"state-knn", "last-two", "user-ema"}
    assert figures["baselines"]["last-two"]["wait_log_mae"] is None
    assert figures["run_jobs"] == 300


def test_all_baselines_are_those_that_apply(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presage.foundation.evaluation.find_spec", lambda _name: None)
    jobs = [{"submit_ms": 60_000 * k, "run_s": 100.0 + k, "cpus_req": 1.0} for k in range(80)]
    result = evaluate(make_trace(*jobs), model, baselines=["all"])

    assert set(result.baselines) == {"requested", "last-two", "similar"}, "the log tells no waits and no ends"
    assert any("boosting is left out" in note for note in result.notes)


def test_evaluation_needs_jobs(model: Model) -> None:
    with pytest.raises(InputError, match="Too few"):
        evaluate(few(8), model)


def test_a_watched_cluster_is_forecast(model: Model) -> None:
    live = LiveForecaster(model, processors=16)
    for k in range(200):
        job = f"j{k}"
        made = live.submit(JobRequest(job, user=f"u{k % 3}", cpus=4, limit_s=3600), 100.0 * k)
        assert made is not None
        check(made)
        live.start(job, 100.0 * k + 10)
        if k >= 4:
            live.end(f"j{k - 4}", 100.0 * k + 20, Outcome.COMPLETED)
    waiting = live.submit(JobRequest("last", user="u1", cpus=16, limit_s=3600), 20_100.0)

    assert waiting is not None
    assert live.trackers[Task.WAIT].resolved_low == 200
    check(live.forecast("last", 20_400.0))
    live.start("j199", 20_300.0)  # told twice
    live.start("j0", 20_300.0)  # ended long ago
    running = live.forecast("j199", 20_400.0)
    assert (running.stands, running.waited_s, running.ran_s) == ("running", 10.0, 490.0)
