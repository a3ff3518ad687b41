"""The contract of a workload model as tests."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import PresageError, UnknownNameError, UsageError
from presage.traces import Trace
from presage.traces.schema import TABLES
from presage.traces.workloads import WorkloadModel, describe_parameters, make_model

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000
IN_ANOTHER_PROCESS = """
import sys
from presage.traces.workloads import make_model
settings = dict(pair.split("=", 1) for pair in sys.argv[3:])
jobs = make_model(sys.argv[1], settings).generate(int(sys.argv[2]), seed=5).jobs
print(jobs.hash_rows(seed=0).hash(seed=0).sum())
"""


class WorkloadContract:
    """What every workload model must do, and refuse to do."""

    name: ClassVar[str]
    """The registered name."""
    settings: ClassVar[dict[str, Any]] = {}
    """Settings under which the contract is tested."""
    jobs: ClassVar[int] = 3000
    """Enough jobs for a load to make sense."""
    days: ClassVar[float] = 7.0
    """A time in which at least a hundred jobs arrive at a load of 0.6."""
    bad_settings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Settings of this model that must be refused, besides the common ones."""

    def model(self, **more: Any) -> WorkloadModel:
        """Return the model with the suite's settings and `more`."""
        return make_model(self.name, {**self.settings, **more})

    def test_the_same_seed_gives_the_same_trace(self) -> None:
        first, second = (self.model().generate(self.jobs, seed=5) for _ in range(2))
        assert first.manifest == second.manifest
        for table in TABLES:
            assert_frame_equal(first.table(table), second.table(table))

    def test_another_process_gives_the_same_trace(self) -> None:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, self.name, str(self.jobs), *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  (our own script)
        here = self.model().generate(self.jobs, seed=5).jobs
        assert int(done.stdout) == here.hash_rows(seed=0).hash(seed=0).sum()

    def test_another_seed_gives_another_trace(self) -> None:
        first, second = (self.model().generate(self.jobs, seed=seed).jobs for seed in (5, 6))
        assert not first["submit_ms"].equals(second["submit_ms"])
        assert not first["run_s"].equals(second["run_s"])

    def test_gives_canonical_tables(self) -> None:
        trace = self.model().generate(self.jobs, seed=5)
        for table, columns in TABLES.items():
            assert dict(trace.table(table).schema) == columns
        assert len(trace) == self.jobs
        assert trace.jobs["job_id"].n_unique() == self.jobs

    def test_jobs_are_submitted_in_order_and_on_whole_seconds(self) -> None:
        trace = self.model(start_ms=1_700_000_123_000).generate(self.jobs, seed=5)
        submit_ms = trace.jobs["submit_ms"]
        assert submit_ms.null_count() == 0
        assert submit_ms.is_sorted()
        assert submit_ms[0] >= 1_700_000_123_000
        assert (submit_ms % 1000 == 0).all()

    def test_jobs_fit_the_machine_and_run(self) -> None:
        model = self.model()
        jobs, machine = model.generate(self.jobs, seed=5).jobs, model.machine()
        assert jobs["run_s"].null_count() == 0
        assert (jobs["run_s"] >= 1).all()
        assert (jobs[f"{model.resource}_req"].is_not_null()).all()
        for resource in ("cpus", "gpus"):
            size = getattr(machine, resource)
            assert size is None or (jobs[f"{resource}_req"].drop_nulls().is_between(0, size)).all()

    def test_the_week_is_336_weights_of_mean_one(self) -> None:
        week = self.model().week()
        assert week.shape == (336,)
        assert week.min() >= 0
        assert week.mean() == pytest.approx(1)

    def test_nothing_is_said_about_waiting(self) -> None:
        trace = self.model().generate(self.jobs, seed=5)
        assert not trace.manifest.has["waits"]
        assert trace.jobs.select(pl.col("start_ms", "end_ms").is_not_null().any()).row(0) == (False, False)

    @pytest.mark.parametrize("load", [0.3, 0.9, 1.5])
    def test_the_load_is_met(self, load: float) -> None:
        assert self.load_of(self.model(load=load).generate(self.jobs, seed=7)) == pytest.approx(load, rel=0.01)

    def test_days_decide_how_many_jobs_a_load_takes(self) -> None:
        trace = self.model(load=0.6).generate(days=self.days, seed=7)
        submit_ms = trace.jobs["submit_ms"]
        assert len(trace) >= 100
        assert self.load_of(trace) == pytest.approx(0.6, rel=0.01)
        assert submit_ms[-1] - submit_ms[0] >= self.days * DAY_MS - 2000
        assert submit_ms[-2] - submit_ms[0] <= self.days * DAY_MS * 1.5

    def test_days_without_a_load_end_in_time(self) -> None:
        trace = self.model(load="none").generate(days=self.days, seed=7)
        start_ms = trace.manifest.origin_ms
        assert trace.jobs["submit_ms"].is_between(start_ms, start_ms + self.days * DAY_MS).all()
        assert trace.jobs["submit_ms"][-1] > start_ms + self.days * DAY_MS / 2

    def test_the_manifest_tells_how_it_was_made(self) -> None:
        trace = self.model(load=0.5).generate(self.jobs, seed=5)
        assert trace.manifest.synthetic
        assert trace.manifest.scheduler is None
        generator = trace.manifest.generator
        assert (generator["name"], generator["seed"], generator["jobs"]) == (self.name, 5, self.jobs)
        again = make_model(generator["name"], generator["parameters"]).generate(generator["jobs"], seed=5)
        assert_frame_equal(again.jobs, trace.jobs)

    def test_survives_saving_and_loading(self, tmp_path: Path) -> None:
        trace = self.model().generate(self.jobs, seed=5)
        trace.save(tmp_path / "trace.parquet")
        loaded = Trace.load(tmp_path / "trace.parquet")
        assert loaded.manifest == trace.manifest
        for table in TABLES:
            assert_frame_equal(loaded.table(table), trace.table(table))

    def test_one_job_is_a_trace_and_has_no_load(self) -> None:
        assert len(self.model(load="none").generate(1, seed=5)) == 1
        self.must_refuse(lambda: self.model(load=0.5).generate(1, seed=5))

    def test_reports_progress(self) -> None:
        seen: list[tuple[int, int | None]] = []
        self.model().generate(self.jobs, seed=5, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (self.jobs, self.jobs)

    def test_follows_the_clock_of_its_time_zone(self) -> None:
        zone = "Asia/Tokyo"
        here, there = (self.model(time_zone=name).generate(self.jobs, seed=5) for name in ("UTC", zone))
        assert there.manifest.time_zone == zone
        # Tokyo knows no summer time: its week is ours, nine hours earlier.
        assert (here.jobs["submit_ms"] - there.jobs["submit_ms"]).unique().to_list() == [9 * 3_600_000]

    @pytest.mark.parametrize(
        "amount",
        [
            {}, {"jobs": 0}, {"jobs": -1}, {"jobs": 10**12}, {"jobs": 2.5}, {"jobs": 5, "days": 1.0},
            {"days": 0.0}, {"days": -1.0}, {"days": 1e12}, {"days": float("nan")},
        ],
    )  # fmt: skip
    def test_refuses_amounts_that_make_no_sense(self, amount: dict[str, Any]) -> None:
        self.must_refuse(lambda: self.model().generate(**amount))

    def test_refuses_a_negative_seed(self) -> None:
        self.must_refuse(lambda: self.model().generate(10, seed=-1))

    @pytest.mark.parametrize(
        "setting",
        [{"load": 0}, {"load": -0.5}, {"load": 11}, {"load": "nan"}, {"load": "much"}, {"time_zone": "Mars/Base"}],
    )
    def test_refuses_common_settings_that_make_no_sense(self, setting: dict[str, Any]) -> None:
        self.must_refuse(lambda: self.model(**setting))

    def test_refuses_its_own_settings_that_make_no_sense(self) -> None:
        for setting in self.bad_settings:
            self.must_refuse(lambda setting=setting: self.model(**setting))

    def test_suggests_the_parameter_that_was_meant(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'time_zone'"):
            self.model(timezone="UTC")

    def test_every_parameter_is_described_and_its_default_is_good(self) -> None:
        for known in describe_parameters(self.name).values():
            assert known.help
            known.check(known.default)
            if known.default is not None:
                assert known.parse(str(known.default)) == known.default

    def load_of(self, trace: Trace) -> float:
        """Return the offered load of `trace`."""
        resource = self.model().resource
        work = (trace.jobs["run_s"] * trace.jobs[f"{resource}_req"]).sum()
        submit_ms = trace.jobs["submit_ms"]
        return float(work / getattr(trace.manifest.machine, resource) / ((submit_ms[-1] - submit_ms[0]) / 1000))

    def must_refuse(self, call: Any) -> None:
        """Assert that `call` is refused with an error that says what to do."""
        with pytest.raises((UsageError, UnknownNameError)) as caught:
            call()
        error: PresageError = caught.value
        assert error.expected
        assert error.remedy or isinstance(error, UnknownNameError)
