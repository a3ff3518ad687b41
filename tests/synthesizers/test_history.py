from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError
from presage.synthesizers import Request, Synthesizer, Training, sample
from presage.synthesizers._base import Drawing
from presage.synthesizers._files import HEAD, KNOWN_PEOPLE
from presage.synthesizers.columns import JobTable
from presage.synthesizers.history import History, history_of
from presage.testing import make_job, make_trace
from presage.traces import Trace

NAMES = ("zoe", "bob", "ann", "tim")
LAST_MS = 10**15


@dataclass(frozen=True)
class NoSettings:
    pass


class Echo(Synthesizer):
    """Draws the first job of its log again and again, and remembers what came before."""

    name = "echo"
    settings_type: ClassVar[type] = NoSettings
    uses_history: ClassVar[bool] = True
    log: JobTable
    seen: JobTable | None = None

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        self.log = table
        return {}

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        self.seen = drawing.history
        return self.log.rows(np.zeros(count, np.int64))

    def _arrays(self) -> dict[str, Any]:
        return {}

    def _restore(self, arrays: dict[str, Any]) -> None:
        pass


def make_log(jobs: int = 240) -> Trace:
    return make_trace(
        *(
            make_job(
                60 * place, 0, 30.0 + place % 9, 1 + place % 4, user=NAMES[place % 4], group=f"lab {place % 4}",
                queue=("day", "night")[place % 2],
            )
            for place in range(jobs)
        ),
        cpus=32,
    )  # fmt: skip


@pytest.fixture
def model() -> Echo:
    return Echo.train(make_log())


def users_of(model: Echo, history: History) -> list[str]:
    """Return the numbers that the users of a history have in the model."""
    category = model.columns.category("user")
    assert category is not None
    assert history.table is not None
    return [str(category.labels[code]) for code in history.table.codes["user"]]


def before(model: Echo, trace: Trace, seed: int = 0) -> History:
    return history_of(model, trace, LAST_MS, np.random.default_rng(seed))


def only(trace: Trace, *names: str) -> Trace:
    return trace.with_jobs(trace.jobs.filter(pl.col("user").is_in(names)))


@pytest.mark.parametrize("part", [slice(None), slice(3, 240), slice(201, 240), slice(238, 240)])
def test_people_are_who_they_are_whatever_part_of_the_log_came_before(model: Echo, part: slice) -> None:
    numbers = dict(zip(NAMES, ("u1", "u2", "u3", "u4"), strict=True))
    trace = make_log()
    trace = trace.with_jobs(trace.jobs[part])
    history = before(model, trace)
    assert users_of(model, history) == [numbers[name] for name in trace.jobs["user"]]
    assert history.notes == ()


def test_strangers_are_people_who_are_not_there(model: Echo) -> None:
    trace = make_trace(*(make_job(60 * at, 0, 30, user=name, group="lab 0", queue="day")
                         for at, name in enumerate(("eve", "bob", "eve", "kim"))))  # fmt: skip
    seen = set()
    for seed in range(20):
        history = before(model, trace, seed)
        first, bob, again, last = users_of(model, history)
        assert bob == "u2"
        assert first == again
        assert len({first, bob, last}) == 3
        seen.add(first)
    assert seen == {"u1", "u3", "u4"}
    assert history.notes == ("2 of 3 users of the jobs before are new to the model",)


def test_the_last_strangers_get_the_numbers_that_are_left(model: Echo) -> None:
    trace = make_trace(
        *(make_job(60 * at, 0, 30, user=f"new {at}", group="lab 0", queue="day") for at in range(9))
    )
    history = before(model, trace)
    assert sorted(users_of(model, history)) == ["u1", "u2", "u3", "u4"]
    assert history.table is not None
    assert history.table.submit_ms is not None
    assert history.table.submit_ms.tolist() == [60_000 * at for at in range(5, 9)]
    assert any("5 jobs of 9" in note for note in history.notes)


def test_groups_are_recognised_too(model: Echo) -> None:
    trace = only(make_log(), "tim", "bob")
    history = before(model, trace)
    category = model.columns.category("group")
    assert category is not None
    assert history.table is not None
    assert {category.labels[code] for code in history.table.codes["group"]} == {"g2", "g4"}


def test_jobs_with_labels_that_nobody_knows_are_not_remembered(model: Echo) -> None:
    rows = [make_job(60 * at, 0, 30, user="bob", group="lab 1", queue=queue)
            for at, queue in enumerate(("night", "noon", None))]  # fmt: skip
    history = before(model, make_trace(*rows))
    assert history.table is not None
    assert len(history.table) == 1
    assert any("2 jobs of 3" in note and "queue" in note for note in history.notes)


@pytest.mark.parametrize("privacy", [None, {"epsilon": 8.0}])
def test_a_model_that_knows_nobody_says_so(model: Echo, privacy: dict[str, float] | None) -> None:
    model.people = None
    model.record["privacy"] = privacy
    history = before(model, only(make_log(), "zoe", "bob"))
    assert len(set(users_of(model, history))) == 2
    assert any("cannot recognise people" in note for note in history.notes)
    assert any("private" in note for note in history.notes) == (privacy is not None)


def test_its_own_traces_have_its_numbers_and_those_of_others_mean_nothing(model: Echo) -> None:
    jobs = make_log(12).jobs.with_columns(user=pl.Series(["u4", "u2", "u4"] * 4))
    generator = sample(model, Request(jobs=2)).manifest.generator
    manifest = replace(make_log().manifest, synthetic=True, generator=generator)
    own = before(model, Trace.create(jobs, manifest))
    assert users_of(model, own) == ["u4", "u2", "u4"] * 4
    other = Trace.create(jobs, replace(manifest, name="another", generator={**generator, "model": "0"}))
    assert any("another model" in note for note in before(model, other).notes)


@pytest.mark.parametrize("jobs", [1, 2, 199])
def test_any_number_of_jobs_will_do(model: Echo, jobs: int) -> None:
    history = before(model, make_log(jobs))
    assert history.table is not None
    assert len(history.table) == jobs


def test_jobs_of_one_instant_will_do(model: Echo) -> None:
    trace = make_log(4)
    at_once = trace.with_jobs(trace.jobs.with_columns(submit_ms=pl.lit(5, pl.Int64)))
    assert before(model, at_once).table is not None


def test_what_comes_after_the_start_is_no_history(model: Echo) -> None:
    history = history_of(model, make_log(), 60_000, np.random.default_rng(0))
    assert history.table is not None
    assert len(history.table) == 2
    with pytest.raises(InputError, match="came before the start") as caught:
        history_of(model, make_log(), -1, np.random.default_rng(0))
    assert caught.value.expected


def test_a_kind_that_remembers_nothing_says_so(model: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "uses_history", False)
    trace = sample(model, Request(jobs=2, after=make_log()))
    assert model.seen is None
    assert any("remembers no jobs" in note for note in trace.manifest.notes)


def test_whom_a_model_recognises_is_kept_apart_and_for_its_owner_alone(model: Echo, tmp_path: Path) -> None:
    model.save(tmp_path)
    assert stat.S_IMODE((tmp_path / KNOWN_PEOPLE).stat().st_mode) == 0o600
    kept = (tmp_path / KNOWN_PEOPLE).read_text() + (tmp_path / HEAD).read_text()
    assert not any(name in kept for name in ("zoe", "bob", "lab 0"))
    assert Echo.load(tmp_path).people == model.people
    (tmp_path / KNOWN_PEOPLE).unlink()
    assert Echo.load(tmp_path).people is None
    (tmp_path / KNOWN_PEOPLE).write_text("{}")
    with pytest.raises(InputError, match="damaged") as caught:
        Echo.load(tmp_path)
    assert caught.value.remedy


def test_a_model_that_knows_nobody_leaves_nobody_of_the_one_before(model: Echo, tmp_path: Path) -> None:
    model.save(tmp_path)
    model.people = None
    model.save(tmp_path)
    assert not (tmp_path / KNOWN_PEOPLE).exists()
