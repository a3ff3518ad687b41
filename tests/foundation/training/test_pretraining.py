"""Pre-training on logs that say less than they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError
from presage.foundation.training.pretraining import Plan, gather, pretrain, pretrain_files
from presage.foundation.training.variants import learnt_from, synthetic_variant
from presage.foundation.view.jobs import JobHistory, history_of
from presage.foundation.view.tasks import Task
from presage.traces import Trace
from presage.traces.workloads import make_model

SHORT = Plan.of(steps=2)


def without_waits(trace: Trace) -> Trace:
    unknown = [pl.lit(None).cast(trace.jobs.schema[name]).alias(name) for name in ("start_ms", "wait_s", "end_ms")]
    return trace.with_jobs(trace.jobs.with_columns(unknown))


@pytest.fixture(scope="module")
def waitless(busy_trace: Trace) -> JobHistory:
    found = history_of(without_waits(busy_trace))
    assert not found.has_waits
    return found


@pytest.mark.parametrize("shape", ["waitless", "20 jobs"])
def test_a_log_that_teaches_too_little_is_named(busy_trace: Trace, tmp_path: Path, shape: str) -> None:
    trace = without_waits(busy_trace) if shape == "waitless" else busy_trace.with_jobs(busy_trace.jobs.head(20))
    path = tmp_path / "poor.parquet"
    trace.save(path)

    with pytest.raises(InputError, match=r"No log teaches waits: poor\.parquet has"):
        pretrain_files([str(path)], SHORT, folder=None, name="own", on_progress=lambda _what, _share: None)


def test_a_log_without_waits_among_others_teaches_run_times(history: JobHistory, waitless: JobHistory) -> None:
    few = history.latest(20)
    model = pretrain({"good": history, "waitless": waitless, "few": few}, SHORT)

    assert set(model.towers) == set(Task)
    assert model.about["notes"][0] == "waitless has no waits: it teaches no waits"
    assert [note.partition(" ")[0] for note in model.about["notes"]] == ["waitless", "few", "few"]
    assert "notes" not in pretrain({"good": history}, SHORT).about


def draw(jobs: int, seed: int) -> Trace:
    """Jobs that wait for nothing, as synthesizers make them."""
    return make_model("lublin", {"users": 8, "processors": 64}).generate(jobs=jobs, seed=seed)


def test_synthetic_variants_are_run_on_a_machine_of_their_own() -> None:
    made = [synthetic_variant(draw, 400, 3, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    first, again, other = (each for each in made if each is not None)

    assert first[1] == again[1] != other[1]
    assert np.array_equal(first[0].start_s, again[0].start_s)
    assert first[0].has_waits
    assert (first[0].wait_s >= 0).all()
    assert first[0].wait_s.max() > 60, "nobody waits"
    assert len(first[0]) == 400


def test_a_synthesizer_sees_no_more_than_other_variants_are_made_of(busy_trace: Trace) -> None:
    seen = learnt_from(busy_trace)

    assert len(seen) == int(0.8 * len(busy_trace))
    assert seen.jobs["job_id"].to_list() == busy_trace.jobs["job_id"].to_list()[: len(seen)]


def test_synthetic_variants_come_with_the_plan_and_the_logs_that_have_them(history: JobHistory) -> None:
    few = history.latest(200)
    plan = Plan.of(steps=1, synthetic=2)
    real, variants = gather({"a": few, "b": few}, plan, draws={"a": draw})

    assert (len(real), len(variants)) == (2, 2)
    assert not np.array_equal(variants[0].history.start_s, variants[1].history.start_s)
    assert gather({"a": few}, Plan.of(steps=1), draws={"a": draw})[1] == []
