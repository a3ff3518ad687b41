"""The contract of a synthesizer as tests."""

from __future__ import annotations

import stat
from copy import copy
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from safetensors.numpy import save

from presage.errors import InputError, UnknownNameError, UsageError
from presage.synthesizers import (
    SYNTHESIZERS,
    Privacy,
    Request,
    Synthesizer,
    Training,
    load_synthesizer,
    sample,
)
from presage.synthesizers._base import PRIVATE_KINDS
from presage.synthesizers._files import FORMAT, HEAD, KNOWN_JOBS, WEIGHTS
from presage.synthesizers._load import offered_load
from presage.synthesizers.columns import PEOPLE, RUN, usable_jobs
from presage.synthesizers.fidelity.marginals import ks_distance
from presage.synthesizers.sampling import class_of_jobs
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import TABLES
from presage.traces.workloads import make_model
from presage.traces.workloads._parameters import parameters_of

if TYPE_CHECKING:
    from pathlib import Path

PROCESSORS = 64
DAY_MS = 86_400_000
LEARNED = ("user", "group", "queue", "cpus_req", "cpus_alloc", "limit_s", "outcome", "partition")
"""Columns of the plain log whose values a synthetic trace must take from it, people by their numbers."""


class _InterruptedError(Exception):
    pass


class SynthesizerContract:
    """What every synthesizer must promise: see `Synthesizer`."""

    name: ClassVar[str]
    """The registered name."""
    settings: ClassVar[dict[str, Any]] = {}
    """Settings that train in a second or two."""
    goes_on: ClassVar[bool] = True
    """Whether an interrupted training goes on where it was."""
    bad_settings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Settings that must be refused."""
    private_log: ClassVar[str] = "plain"
    """The log of `make_log` that the kind keeps private, if it can."""

    def train(self, log: str = "plain") -> Synthesizer:
        """Return the synthesizer that learned from one of the logs of `make_log`, trained once for all tests."""
        return _trained(self.name, tuple(sorted(self.settings.items())), log)

    def train_anew(self, log: Trace, training: Training | None = None, **settings: Any) -> Synthesizer:
        """Return a synthesizer that learned from `log`."""
        return SYNTHESIZERS.get(self.name).train(log, {**self.settings, **settings}, training)

    def test_it_is_registered_under_its_name(self) -> None:
        assert SYNTHESIZERS.get(self.name).name == self.name

    def test_every_setting_is_described_and_its_default_is_good(self) -> None:
        for known in parameters_of(SYNTHESIZERS.get(self.name).settings_type).values():
            assert known.help
            known.check(known.default)

    def test_the_same_seed_gives_the_same_trace_and_another_another(self) -> None:
        model = self.train()
        first, second, other = (sample(model, Request(jobs=150, seed=seed)) for seed in (4, 4, 5))
        assert first.manifest == second.manifest
        assert_frame_equal(first.jobs, second.jobs)
        assert not first.jobs["run_s"].equals(other.jobs["run_s"])
        assert not first.jobs["submit_ms"].equals(other.jobs["submit_ms"])

    def test_the_same_training_gives_the_same_model(self) -> None:
        again = self.train_anew(make_log("plain"))
        assert_arrays_equal(again, self.train())

    def test_saved_and_loaded_it_draws_the_same(self, tmp_path: Path) -> None:
        model = self.train()
        model.save(tmp_path / "model")
        loaded = load_synthesizer(tmp_path / "model")
        assert type(loaded) is type(model)
        assert loaded.record == model.record
        assert loaded.settings == model.settings
        assert loaded.source == model.source
        asked = Request(jobs=150, seed=4)
        assert_frame_equal(sample(loaded, asked).jobs, sample(model, asked).jobs)

    def test_saving_changes_nothing_in_the_model(self, tmp_path: Path) -> None:
        model = self.train()
        before = {name: array.copy() for name, array in model._arrays().items()}
        sample(model, Request(jobs=20))
        model.save(tmp_path)
        for name, array in model._arrays().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)

    def test_what_is_drawn_are_jobs(self) -> None:
        model = self.train()
        table = model.draw(137, model.source.first_ms, np.random.default_rng(3))
        assert len(table) == 137
        assert set(table.codes) == {each.name for each in model.columns.categories}
        assert set(table.numbers) == {each.name for each in model.columns.numbers}
        for each in model.columns.categories:
            assert ((table.codes[each.name] >= 0) & (table.codes[each.name] < len(each))).all()
        for values in table.numbers.values():
            assert (np.isfinite(values) & (values >= 0)).all()

    def test_the_trace_is_canonical_and_in_order(self) -> None:
        trace = sample(self.train(), Request(jobs=150, start_ms=1_700_000_123_000))
        for table, columns in TABLES.items():
            assert dict(trace.table(table).schema) == columns
        assert len(trace) == trace.jobs["job_id"].n_unique() == 150
        submit_ms = trace.jobs["submit_ms"]
        assert submit_ms.is_sorted()
        assert submit_ms[0] >= 1_700_000_123_000
        assert (trace.jobs["run_s"] >= 0).all()

    def test_every_value_was_seen_in_the_log(self) -> None:
        known = numbered(make_log("plain").jobs)
        drawn = sample(self.train()).jobs
        for name in LEARNED:
            assert set(drawn[name].to_list()) <= set(known[name].to_list()), name

    def test_people_are_numbers(self) -> None:
        drawn = sample(self.train()).jobs
        for name, letter in PEOPLE.items():
            assert drawn[name].drop_nulls().str.contains(f"^{letter}[0-9]+$").all()
        assert drawn["user"].null_count() < len(drawn)
        assert drawn["name"].null_count() == len(drawn)

    def test_no_name_of_a_person_is_kept(self, tmp_path: Path) -> None:
        self.train().save(tmp_path)
        kept = (tmp_path / HEAD).read_bytes() + (tmp_path / WEIGHTS).read_bytes()
        for name in PEOPLE:
            for person in make_log("plain").jobs[name].drop_nulls().unique():
                assert person.encode() not in kept

    def test_runs_end_at_their_limits(self) -> None:
        model = self.train()
        assert model.columns.limits_hold
        drawn = sample(model).jobs
        assert (drawn["run_s"] <= drawn["limit_s"] + model.columns.grace_s).all()

    def test_what_never_changes_comes_back(self) -> None:
        drawn = sample(self.train(), Request(jobs=50)).jobs
        assert drawn["account"].unique().to_list() == ["a1"]
        assert drawn["nodes_req"].unique().to_list() == [2]

    def test_the_manifest_tells_how_it_was_made(self) -> None:
        model = self.train()
        manifest = sample(model, Request(jobs=50, load=0.5, seed=9)).manifest
        assert manifest.synthetic
        assert manifest.machine == make_log("plain").manifest.machine
        assert manifest.time_zone == "US/Pacific"
        generator = manifest.generator
        assert (generator["synthesizer"], generator["seed"]) == (self.name, 9)
        assert generator["request"] == {"jobs": 50, "load": 0.5}
        assert generator["trained_on"] == "plain"
        assert generator["trained_jobs"] == len(make_log("plain"))
        assert generator["settings"].items() >= self.settings.items()

    def test_as_many_jobs_as_learned_from_where_nothing_is_said(self) -> None:
        model = self.train()
        trace = sample(model)
        assert len(trace) == model.source.jobs
        assert trace.jobs["submit_ms"][0] >= model.source.first_ms

    def test_one_job_is_a_trace(self) -> None:
        assert len(sample(self.train(), Request(jobs=1))) == 1

    def test_days_end_in_time(self) -> None:
        start_ms = 1_700_000_000_000
        submit_ms = sample(self.train(), Request(days=1.5, start_ms=start_ms)).jobs["submit_ms"]
        assert submit_ms.is_between(start_ms, start_ms + 1.5 * DAY_MS).all()
        assert submit_ms[-1] > start_ms + 0.75 * DAY_MS

    @pytest.mark.parametrize("load", [0.2, 1.3])
    @pytest.mark.parametrize("processors", [None, 512])
    def test_the_load_is_met(self, load: float, processors: int | None) -> None:
        trace = sample(self.train(), Request(jobs=200, load=load, processors=processors))
        assert load_of(trace) == pytest.approx(load, rel=0.01)
        assert trace.jobs["submit_ms"].is_sorted()

    def test_days_of_a_load_take_as_many_jobs_as_it_needs(self) -> None:
        trace = sample(self.train(), Request(days=4, load=0.6))
        assert load_of(trace) == pytest.approx(0.6, rel=0.01)
        submit_ms = trace.jobs["submit_ms"]
        # The last job brings all its work at once: it may make the time longer by a few hours.
        assert 4 * DAY_MS - 2000 <= submit_ms[-1] - submit_ms[0] < 5.5 * DAY_MS

    def test_jobs_grow_with_the_machine(self) -> None:
        model = self.train()
        plain, grown = (sample(model, Request(jobs=80, processors=size)).jobs for size in (None, 256))
        sizes = ("cpus_req", "cpus_alloc", "nodes_req")
        assert_frame_equal(grown.select(sizes), plain.select(pl.col(sizes) * 4))
        # A job that is a copy on one machine, and got another run time there, need not be one on the other.
        others = sizes if model.known_jobs is None else (*sizes, RUN)
        assert_frame_equal(grown.drop(others), plain.drop(others))

    def test_the_mix_is_met(self) -> None:
        mix = {"serial": 0.5, "huge": 0.1}
        trace = sample(self.train(), Request(jobs=100, mix=mix))
        classes = class_of_jobs(trace.jobs, trace.manifest.machine).tolist()
        assert len(classes) == 100
        for name, share in mix.items():
            assert abs(classes.count(name) - 100 * share) <= 1
        assert trace.jobs["submit_ms"].is_sorted()

    @pytest.mark.parametrize(
        "asked",
        [Request(), Request(days=20), Request(mix={"wide": 1.0}), Request(processors=128), Request(load=0.9)],
        ids=["plain", "days", "mix", "processors", "load"],
    )
    @pytest.mark.parametrize("copies", [0.0, None])
    def test_no_job_of_the_log_is_drawn_again_or_it_says_so(self, asked: Request, copies: float | None) -> None:
        model = self.train()
        request = replace(asked, seed=2, copies=copies)
        if model.known_jobs is None:
            with pytest.raises(UsageError, match="cannot tell whether a job is a copy"):
                sample(model, replace(request, copies=0.0))
            return
        trace = sample(model, request)
        log = usable_jobs(make_log("plain")).cast({"outcome": trace.jobs.schema["outcome"]})
        # No job of this log is common enough to be drawn again.
        assert trace.jobs.join(log, on=[*LEARNED, "nodes_req", RUN], how="semi", nulls_equal=True).is_empty()
        assert trace.manifest.generator["copies"] == 0
        assert trace.manifest.generator["request"].get("copies") == copies

    def test_the_log_is_known_by_a_file_of_its_own_that_only_its_owner_reads(self, tmp_path: Path) -> None:
        model = self.train()
        model.save(tmp_path)
        if model.known_jobs is None:
            assert not (tmp_path / KNOWN_JOBS).exists()
            return
        assert stat.S_IMODE((tmp_path / KNOWN_JOBS).stat().st_mode) == 0o600
        (tmp_path / KNOWN_JOBS).unlink()
        trace = sample(load_synthesizer(tmp_path), Request(jobs=20))
        assert trace.manifest.generator["copies"] is None
        assert any(KNOWN_JOBS in note for note in trace.manifest.notes)
        (tmp_path / KNOWN_JOBS).write_bytes(b"cut")
        with pytest.raises(InputError, match="cannot be read"):
            load_synthesizer(tmp_path)
        (tmp_path / KNOWN_JOBS).write_bytes(save({"jobs": np.zeros(1)}))
        with pytest.raises(InputError, match="damaged"):
            load_synthesizer(tmp_path)

    @pytest.mark.parametrize("log", ["plain", "fractions"])
    def test_run_times_stay_distributed_where_no_job_of_the_log_is_drawn_again(self, log: str) -> None:
        model = self.train(log)
        forgetful = copy(model)
        forgetful.known_jobs = None
        run_s, moved_s = (sample(each).jobs[RUN].to_numpy() for each in (forgetful, model))
        assert ks_distance(run_s, moved_s) < 0.05

    def test_a_trace_goes_on_after_another(self) -> None:
        model = self.train()
        before = sample(model, Request(jobs=220))
        after = sample(model, Request(jobs=60, after=before, seed=2))
        assert after.jobs["submit_ms"][0] >= before.jobs["submit_ms"][-1]
        assert len(after) == 60

    def test_a_trace_goes_on_after_the_log(self) -> None:
        log = make_log("plain")
        after = sample(self.train(), Request(jobs=60, after=log))
        assert after.jobs["submit_ms"][0] >= log.jobs["submit_ms"][-1]
        few = sample(self.train(), Request(jobs=60, after=log.with_jobs(log.jobs.tail(1))))
        assert few.jobs["submit_ms"][0] >= log.jobs["submit_ms"][-1]
        for trace in (after, few):
            told = any("remembers no jobs" in note for note in trace.manifest.notes)
            assert told != self.train().uses_history

    def test_it_tells_how_many_jobs_were_drawn(self) -> None:
        told: list[int] = []
        sample(self.train(), Request(jobs=90), progress=told.append)
        assert min(told) > 0
        assert sum(told) >= 90

    def test_it_tells_how_far_the_training_is(self) -> None:
        told: list[tuple[int, int]] = []
        self.train_anew(make_log("plain"), Training(progress=lambda done, total, _: told.append((done, total))))
        done = [each for each, _ in told]
        assert done
        assert done == sorted(done)
        assert all(1 <= each <= total for each, total in told)

    @pytest.mark.parametrize("log", ["bare", "numbers", "unknown outcomes", "gpus", "fractions"])
    def test_other_logs_are_learned_from_too(self, log: str) -> None:
        trace, known = sample(self.train(log), Request(jobs=60)), make_log(log).jobs
        assert len(trace) == 60
        for name in ("user", "limit_s", "gpus_req", "gpu_type_req", "mem_req_bytes", "outcome"):
            if known[name].null_count() == len(known):
                assert trace.jobs[name].null_count() == 60, name
            elif name != "user":
                assert set(trace.jobs[name].to_list()) <= set(known[name].to_list()), name

    def test_the_load_of_gpus_is_met(self) -> None:
        trace = sample(self.train("gpus"), Request(jobs=200, load=0.5))
        assert load_of(trace) == pytest.approx(0.5, rel=0.01)

    def test_a_log_of_few_jobs_is_refused(self) -> None:
        few = Trace.create(make_log("plain").jobs.head(50), make_log("plain").manifest)
        with pytest.raises(InputError, match="Only 50 of 50 jobs") as caught:
            self.train_anew(few)
        assert caught.value.expected
        assert caught.value.remedy

    def test_a_log_of_one_instant_is_refused(self) -> None:
        log = make_log("plain")
        at_once = log.jobs.with_columns(submit_ms=pl.lit(0, pl.Int64))
        with pytest.raises(InputError, match="the same instant"):
            self.train_anew(Trace.create(at_once, log.manifest))

    def test_settings_that_make_no_sense_are_refused(self) -> None:
        with pytest.raises(UnknownNameError):
            self.train_anew(make_log("plain"), no_such_setting=1)
        for setting in self.bad_settings:
            with pytest.raises((UsageError, UnknownNameError)):
                self.train_anew(make_log("plain"), **setting)

    def test_an_interrupted_training_goes_on_to_the_same_model(self, tmp_path: Path) -> None:
        if not self.goes_on:
            pytest.skip("its trainings are too short to be interrupted")
        state = tmp_path / "state.safetensors"

        def interrupt(_done: int, _total: int, _words: str) -> None:
            if state.exists():
                raise _InterruptedError

        with pytest.raises(_InterruptedError):
            self.train_anew(make_log("plain"), Training(checkpoint=state, progress=interrupt))
        assert state.exists()
        resumed = self.train_anew(make_log("plain"), Training(checkpoint=state))
        assert not state.exists()
        assert_arrays_equal(resumed, self.train())

    def test_privacy_is_kept_or_refused(self) -> None:
        private = Training(privacy=Privacy(epsilon=20.0, delta=1e-2))
        if self.name not in PRIVATE_KINDS:
            with pytest.raises(UsageError, match="tvae"):
                self.train_anew(make_log("plain"), private)
            return
        model = self.train_anew(make_log(self.private_log), private)
        assert model.record["privacy"]["epsilon"] <= 20.0
        assert model.record["privacy"]["unit"]
        trace = sample(model, Request(jobs=20))
        assert len(trace) == 20
        assert trace.manifest.generator["privacy"] == model.record["privacy"]
        assert model.known_jobs is None  # for that it would have to keep the log's jobs

    @pytest.mark.parametrize("damage", ["no head", "no JSON", "another format", "no weights", "cut", "empty"])
    def test_a_damaged_folder_is_refused(self, tmp_path: Path, damage: str) -> None:
        self.train().save(tmp_path)
        head, weights = tmp_path / HEAD, tmp_path / WEIGHTS
        if damage in ("no head", "no weights"):
            (head if damage == "no head" else weights).unlink()
        elif damage == "cut":
            weights.write_bytes(weights.read_bytes()[:-9])
        elif damage == "empty":
            weights.write_bytes(save({}))
        else:
            other = head.read_text().replace(f'"format": {FORMAT}', '"format": 0')
            head.write_text("{" if damage == "no JSON" else other)
        with pytest.raises(InputError) as caught:
            load_synthesizer(tmp_path)
        assert caught.value.remedy

    def test_a_model_of_other_columns_is_refused(self, tmp_path: Path) -> None:
        self.train().save(tmp_path / "one")
        self.train("bare").save(tmp_path / "other")
        (tmp_path / "one" / WEIGHTS).write_bytes((tmp_path / "other" / WEIGHTS).read_bytes())
        with pytest.raises(InputError, match="damaged"):
            load_synthesizer(tmp_path / "one")


@cache
def _trained(name: str, settings: tuple[tuple[str, Any], ...], log: str) -> Synthesizer:
    return SYNTHESIZERS.get(name).train(make_log(log), dict(settings))


@cache
def make_log(name: str) -> Trace:
    """Return a log of 300 jobs: `plain` has all, others lack something; `crowd` has more jobs, and many users.

    `bare` has neither users nor limits nor outcomes, `numbers` only times that differ, `fractions` times that are
    no whole seconds, `gpus` GPUs of several types; of `unknown outcomes` some are missing.
    """
    if name == "gpus":
        return make_model("gpu-cluster", {"nodes": 40}).generate(300, seed=1)
    if name == "crowd":
        return _crowd()
    plain = _plain()
    jobs = plain.jobs
    missing = {
        "plain": (),
        "fractions": (),
        "bare": ("user", "group", "account", "limit_s", "outcome", "queue"),
        "numbers": ("user", "group", "limit_s", "outcome", "queue", "cpus_alloc", "cpus_req"),
        "unknown outcomes": (),
    }[name]
    jobs = jobs.with_columns(pl.lit(None, jobs.schema[each]).alias(each) for each in missing)
    if name == "unknown outcomes":
        jobs = jobs.with_columns(pl.when(pl.col("run_s") > 600).then(pl.col("outcome")))
    if name == "fractions":
        jobs = jobs.with_columns(pl.col("run_s") + 0.25, pl.col("submit_ms") + 500 * (pl.col("submit_ms") % 7))
    return Trace.create(jobs.sort("submit_ms"), replace(plain.manifest, name=name))


def _plain(jobs: int = 300) -> Trace:
    rng = np.random.default_rng(11)
    people = ["amina", "bruno", "chloe", "dmitri", "esther", "farid", "grace-kelly"]
    user = np.minimum(rng.zipf(1.6, jobs) - 1, len(people) - 1)
    submit_s = 1_500_000_000 + np.cumsum(np.rint(rng.lognormal(6, 1.5, jobs)))
    cpus = 2.0 ** np.minimum(rng.integers(0, 6, jobs) + (user == 0), 6)
    limit_s = 900.0 * 2 ** rng.integers(0, 5, jobs)
    run_s = np.rint(np.minimum(limit_s * rng.lognormal(-1.5 + 0.2 * user, 0.9), limit_s + 5))
    rows = [
        make_job(
            submit_s[index], 0, run_s[index], cpus[index],
            user=people[user[index]], group="physics" if user[index] % 2 else "chemistry", account="project-x",
            queue="short" if limit_s[index] < 3000 else "long", partition="batch", nodes_req=2,
            limit_s=limit_s[index], cpus_req=cpus[index], name=f"run-{index}",
            outcome="completed" if run_s[index] < limit_s[index] else "timeout",
        )
        for index in range(jobs)
    ]  # fmt: skip
    return make_trace(*rows, cpus=PROCESSORS, name="plain", time_zone="US/Pacific", absolute_time=True)


def _crowd(people: int = 60, weeks: int = 5) -> Trace:
    """Return weeks in each of which about half of the people come, each with sizes and limits of their own."""
    rng = np.random.default_rng(5)
    rows = []
    for week in range(weeks):
        for person in np.flatnonzero(rng.random(people) < 0.6).tolist():
            at_s = (4 + 7 * week + int(rng.integers(0, 6))) * 86_400 + int(rng.integers(8, 18)) * 3600
            size, limit_s = 2.0 ** (person % 4), 3600.0 * (1 + person % 3)
            for _ in range(int(rng.integers(1, 7))):
                at_s += int(rng.integers(5, 3000))
                run_s = float(np.rint(limit_s * rng.uniform(0.1, 0.9)))
                rows.append(
                    make_job(
                        at_s,
                        0,
                        run_s,
                        size,
                        user=f"person-{person}",
                        limit_s=limit_s,
                        queue=("a", "b")[person % 2],
                    )
                )
    return make_trace(*sorted(rows, key=lambda row: row["submit_ms"]), cpus=PROCESSORS, name="crowd")


def numbered(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs with numbers in place of people's names."""
    return jobs.with_columns(
        pl.concat_str(pl.lit(letter), pl.col(name).rank("dense").cast(pl.String)).alias(name)
        for name, letter in PEOPLE.items()
    )


def load_of(trace: Trace) -> float:
    """Return the load that the jobs offer to the machine."""
    found = offered_load(trace.jobs, trace.jobs["submit_ms"].to_numpy(), trace.manifest.machine)
    assert found is not None
    return found


def assert_arrays_equal(first: Synthesizer, second: Synthesizer) -> None:
    """Assert that two models learned the very same."""
    arrays, others = first._arrays(), second._arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
