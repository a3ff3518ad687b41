from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UnknownNameError, UsageError
from presage.synthesizers import Request, Synthesizer, sample
from presage.synthesizers._base import Drawing, Source, Training
from presage.synthesizers._load import offered_load
from presage.synthesizers.columns import Category, Columns, JobTable, Number
from presage.synthesizers.sampling import _split, class_of_jobs
from presage.testing import make_job, make_trace
from presage.traces import Machine, Trace

MONDAY_MS = 1_700_438_400_000
"""2023-11-20 00:00 UTC."""
SIZES = (1.0, 2.0, 8.0, 32.0)


@dataclass(frozen=True)
class NoSettings:
    pass


class Metronome(Synthesizer):
    """Draws a job of an hour every half hour, of sizes 1, 2, 8 and 32 in turns."""

    name = "metronome"
    settings_type: ClassVar[type] = NoSettings
    uses_history: ClassVar[bool] = True
    seen: JobTable | None = None
    drawn = 0

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        raise NotImplementedError

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        self.seen, self.drawn = drawing.history, self.drawn + count
        drawing.tell(count)
        numbers = {"gap_s": np.full(count, 1800.0), "run_s": np.full(count, 3600.0)}
        codes = {each.name: np.arange(count) % len(each) for each in self.columns.categories}
        return JobTable(codes, numbers)

    def _arrays(self) -> dict[str, Any]:
        return {}

    def _restore(self, arrays: dict[str, Any]) -> None:
        raise NotImplementedError


def make_model(cpus: float | None = 32.0, week: tuple[float, ...] = (1.0,) * 168) -> Metronome:
    columns = Columns(
        (Category("cpus", SIZES),), (Number("gap_s", (1800.0, 1800.0)), Number("run_s", (3600.0, 3600.0)))
    )
    source = Source(
        "steady", 100, MONDAY_MS, MONDAY_MS + 99 * 1_800_000, Machine(cpus=cpus), "UTC", True, None, week
    )  # fmt: skip
    return Metronome(columns, source, NoSettings(), {})


def hours(trace: Trace) -> list[float]:
    times: list[float] = ((trace.jobs["submit_ms"].to_numpy() - MONDAY_MS) / 3_600_000).tolist()
    return times


def test_jobs_come_as_drawn() -> None:
    trace = sample(make_model(), Request(jobs=5))
    assert hours(trace) == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert trace.jobs["cpus_req"].to_list() == [1.0, 2.0, 8.0, 32.0, 1.0]
    assert trace.jobs["job_id"].to_list() == ["1", "2", "3", "4", "5"]


def test_a_job_at_the_end_of_the_days_comes_too_late() -> None:
    assert hours(sample(make_model(), Request(days=0.125))) == [0.5, 1.0, 1.5, 2.0, 2.5]


def test_days_without_a_job_are_refused() -> None:
    with pytest.raises(UsageError, match="No job arrives within so short a time"):
        sample(make_model(), Request(days=0.01))


def test_a_load_stretches_hours() -> None:
    # Work of 1 + 2 + 8 + 32 + 1 processor hours on 32 processors makes a load of .1 over 13.75 hours.
    trace = sample(make_model(), Request(jobs=5, load=0.1))
    np.testing.assert_allclose(hours(trace), 0.5 + 13.75 * np.arange(5) / 4, atol=1 / 3600)


def test_what_is_stretched_comes_at_the_hours_of_the_log() -> None:
    # Nothing comes before noon, so what is stretched over a day must come after noon as well.
    week = tuple(2.0 * (hour % 24 >= 12) for hour in range(168))
    trace = sample(make_model(week=week), Request(jobs=80, load=0.05))
    afternoon = np.array(hours(trace)) % 24 >= 12
    assert afternoon.mean() > 0.9


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_a_load_of_weeks_keeps_the_hours_at_which_jobs_come(load: float) -> None:
    model = make_model()
    plain, loaded = (sample(model, Request(jobs=4000, load=each)) for each in (None, load))
    assert offered_load(
        loaded.jobs, loaded.jobs["submit_ms"].to_numpy(), loaded.manifest.machine
    ) == pytest.approx(load, rel=1e-3)
    assert loaded.jobs["cpus_req"].sum() == plain.jobs["cpus_req"].sum()
    weekly = [sorted(round(hour % 168, 3) for hour in hours(each)) for each in (plain, loaded)]
    # The last job comes when the load is reached.
    assert np.mean(np.array(weekly[0]) == weekly[1]) > 0.99


def test_days_of_a_load_take_jobs_until_the_work_is_there() -> None:
    # Four jobs bring 43 processor hours; 3.2 of 32 processors for ten days are 768: 17 rounds and four jobs more.
    trace = sample(make_model(), Request(days=10, load=0.1))
    assert len(trace) == 72
    assert hours(trace)[-1] - hours(trace)[0] == pytest.approx(18 * 43 / 3.2, abs=0.01)


def test_a_load_needs_a_machine_and_two_jobs() -> None:
    with pytest.raises(UsageError, match="so there is no load"):
        sample(make_model(cpus=None), Request(jobs=5, load=0.5))
    with pytest.raises(UsageError, match="so there is no load"):
        sample(make_model(cpus=None), Request(days=5, load=0.5))
    with pytest.raises(UsageError, match="One job alone"):
        sample(make_model(), Request(jobs=1, load=0.5))


def test_sizes_follow_the_machine_and_stay_whole_and_within_it() -> None:
    assert sample(make_model(), Request(jobs=4, processors=64)).jobs["cpus_req"].to_list() == [2, 4, 16, 64]
    smaller = sample(make_model(), Request(jobs=4, processors=12))
    assert smaller.jobs["cpus_alloc"].to_list() == [1, 1, 3, 12]
    assert smaller.manifest.machine.cpus == 12


def test_jobs_of_an_unknown_machine_keep_their_sizes() -> None:
    assert sample(make_model(cpus=None), Request(jobs=4, processors=64)).jobs["cpus_req"].to_list() == [
        1,
        2,
        8,
        32,
    ]
    with pytest.raises(UsageError, match="has jobs of 32 processors"):
        sample(make_model(cpus=None), Request(jobs=4, processors=31))


def sized(machine: Machine, **columns: tuple[float, ...]) -> Metronome:
    """Return a model of jobs with these columns, all of which have their values in turns."""
    model = make_model()
    model.columns = replace(
        model.columns, categories=tuple(Category(name, labels) for name, labels in columns.items())
    )
    model.source = replace(model.source, machine=machine)
    return model


def test_nodes_and_tasks_follow_the_processors() -> None:
    model = sized(Machine(cpus=256.0, nodes=64), cpus=(4.0, 8.0), nodes_req=(1.0, 64.0), tasks=(2.0, 256.0))
    trace = sample(model, Request(jobs=2, processors=64))
    assert trace.manifest.machine == Machine(cpus=64.0, nodes=16)
    assert trace.jobs.select("cpus_req", "nodes_req", "tasks").rows() == [(1.0, 1, 1), (2.0, 16, 64)]
    same = sample(model, Request(jobs=2, nodes=16))
    assert same.jobs.equals(trace.jobs)
    assert same.manifest.machine == trace.manifest.machine
    with pytest.raises(UsageError, match="nodes 2 times"):
        sample(model, Request(jobs=2, nodes=128, processors=64))


def test_jobs_of_nodes_do_not_take_a_size_in_processors() -> None:
    # The log knows neither its machine nor processors, only jobs of up to 512 nodes.
    model = sized(Machine(), nodes_req=(1.0, 512.0))
    with pytest.raises(UsageError, match="have no processors") as caught:
        sample(model, Request(jobs=2, processors=64))
    assert "--nodes" in str(caught.value.expected)
    with pytest.raises(UsageError, match="has jobs of 512 nodes"):
        sample(model, Request(jobs=2, nodes=64))
    with pytest.raises(UsageError, match="cannot be run on a machine"):
        sample(model, Request(jobs=2, waits="fcfs"))
    with pytest.raises(UsageError, match="no load") as caught:
        sample(model, Request(jobs=2, load=0.5))
    assert "--nodes" in str(caught.value.remedy)
    trace = sample(model, Request(jobs=8, nodes=1024, load=0.5))
    assert trace.jobs["nodes_req"].max() == 512
    assert offered_load(trace.jobs, trace.jobs["submit_ms"].to_numpy(), trace.manifest.machine) == pytest.approx(
        0.5, rel=0.01
    )


def test_gpus_of_a_machine_can_be_said() -> None:
    model = sized(Machine(), gpus_req=(0.0, 0.5, 1.0, 8.0))
    with pytest.raises(UsageError, match="has jobs of 8 GPUs"):
        sample(model, Request(jobs=4, gpus=4))
    with pytest.raises(UsageError, match="have no processors"):
        sample(model, Request(jobs=4, processors=64))
    trace = sample(model, Request(jobs=8, gpus=16, load=0.5))
    assert trace.manifest.machine.gpus == 16
    assert trace.jobs["gpus_req"].to_list() == [0.0, 0.5, 1.0, 8.0] * 2
    known = sized(Machine(gpus=16.0), gpus_req=(0.0, 0.5, 1.0, 8.0))
    assert sample(known, Request(jobs=4, gpus=64)).jobs["gpus_req"].to_list() == [0.0, 0.5, 4.0, 32.0]
    assert sample(known, Request(jobs=4, gpus=4)).jobs["gpus_req"].to_list() == [0.0, 0.5, 1.0, 2.0]


def test_classes_of_jobs_of_nodes_go_by_nodes() -> None:
    classes = class_of_jobs(pl.DataFrame({"nodes_req": [1, 4, 5, 25]}), Machine(nodes=100)).tolist()
    assert classes == ["serial", "narrow", "wide", "huge"]


def test_classes_go_by_the_share_of_the_machine() -> None:
    jobs = pl.DataFrame(
        {"cpus_req": [1.0, 4.0, 5.0, 24.0, 25.0, None], "gpus_req": [0.0, None, 0.0, 0.0, 0.0, 0.5]}
    )
    classes = class_of_jobs(jobs, Machine(cpus=100.0)).tolist()
    assert classes == ["serial", "narrow", "wide", "wide", "huge", "gpu"]


def test_a_mix_leaves_out_what_is_too_much() -> None:
    # Of 32 processors, 2 are wide, 8 and 32 are huge: the half that is left goes to them as 1 to 2.
    trace = sample(make_model(), Request(jobs=12, mix={"serial": 0.5}))
    sizes = trace.jobs["cpus_req"].to_list()
    assert (sizes.count(1.0), sizes.count(2.0), sizes.count(8.0) + sizes.count(32.0)) == (6, 2, 4)
    assert trace.jobs["submit_ms"].is_sorted()
    assert set(np.diff(hours(trace)) % 0.5) == {0.0}


def test_days_of_a_mix_end_in_time() -> None:
    trace = sample(make_model(), Request(days=30, mix={"wide": 0.6}))
    assert 29 * 24 < hours(trace)[-1] < 30 * 24
    assert (trace.jobs["cpus_req"] == 2.0).mean() == pytest.approx(0.6, abs=0.01)


def test_a_mix_may_leave_a_class_out() -> None:
    trace = sample(make_model(), Request(jobs=10, mix={"huge": 0.0, "wide": 0.3}))
    assert sorted(trace.jobs["cpus_req"].to_list()) == [1.0] * 7 + [2.0] * 3


def test_a_rare_class_is_drawn_for_until_there_are_enough() -> None:
    model = make_model()
    trace = sample(model, Request(jobs=3000, mix={"wide": 0.9}))
    assert (trace.jobs["cpus_req"] == 2.0).sum() == 2700
    assert model.drawn > 4 * 2700


def test_mixes_that_no_job_can_fill_are_refused() -> None:
    with pytest.raises(UsageError, match="draws no gpu jobs"):
        sample(make_model(), Request(jobs=5, mix={"gpu": 0.2}))
    with pytest.raises(UsageError, match="no other jobs"):
        sample(make_model(), Request(jobs=5, mix={"serial": 0.2, "wide": 0.2, "huge": 0.2}))


@pytest.mark.parametrize(
    ("count", "shares", "parts"),
    [(10, [0.5, 0.3, 0.2], [5, 3, 2]), (10, [1 / 3] * 3, [4, 3, 3]), (1, [0.4, 0.6], [0, 1]), (0, [1.0], [0])],
)
def test_shares_become_whole_numbers(count: int, shares: list[float], parts: list[int]) -> None:
    assert _split(count, shares).tolist() == parts


def test_a_trace_goes_on_where_another_ends() -> None:
    before = make_trace(*[make_job(60 * place, 0, 30, 8) for place in range(250)])
    model = make_model()
    trace = sample(model, Request(jobs=2, after=before))
    assert trace.jobs["submit_ms"].to_list() == [249 * 60_000 + 1_800_000, 249 * 60_000 + 3_600_000]
    assert model.seen is not None
    assert model.seen.codes["cpus"].tolist() == [2] * 250
    assert sample(model, Request(jobs=1, after=before, start_ms=MONDAY_MS)).jobs["submit_ms"][0] > MONDAY_MS


def test_nothing_goes_on_after_jobs_without_times() -> None:
    before = make_trace({"run_s": 5.0})
    with pytest.raises(InputError, match="has no submit times"):
        sample(make_model(), Request(jobs=2, after=before))


def test_waits_are_those_of_the_policy() -> None:
    # The job of 32 processors waits for the one of 8 before it, and holds up the next.
    trace = sample(make_model(), Request(jobs=5, waits="fcfs"))
    assert trace.jobs["wait_s"].to_list() == [0.0, 0.0, 0.0, 1800.0, 3600.0]
    assert trace.manifest.generator["waits"] == "fcfs"
    assert trace.manifest.synthetic


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": 5, "days": 1.0}, {"jobs": 0}, {"days": 0.0}, {"days": float("nan")}, {"load": 0.0},
        {"load": float("inf")}, {"processors": 0}, {"nodes": 0}, {"gpus": -1},
        {"mix": {"wide": 1.2}}, {"mix": {"wide": 0.6, "huge": 0.6}},
        {"mix": {"wide": float("nan")}}, {"seed": -1}, {"seed": 2**70},
    ],
)  # fmt: skip
def test_requests_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Request(**wrong)
    assert caught.value.expected


def test_bounds_are_written_as_people_write_them() -> None:
    for wrong, words in (
        ({"jobs": 0}, "jobs from 1 to 100,000,000"), ({"gpus": 0}, "gpus from 1 to 1,000,000,000"),
        ({"load": 11.0}, "load from 0.001 to 10"), ({"days": 1e-9}, "days from 0.001 to 366,000"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            Request(**wrong)
        assert caught.value.expected == words


def test_an_unknown_class_is_suggested() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'serial'"):
        Request(mix={"seriel": 0.5})


def test_too_many_jobs_are_refused_before_they_are_drawn() -> None:
    model = make_model()
    model.source = replace(model.source, last_ms=model.source.first_ms + 99)
    with pytest.raises(UsageError, match="No such trace"):
        sample(model, Request(days=10))
    assert model.drawn == 0
