"""The contract of a connector as tests."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.connectors import CONNECTORS
from presage.connectors._base import Connector, Discovers, HoldsJobs, JobStatus, SignalsJobs, Submission
from presage.errors import ClusterRefusedError, ConnectorError, UsageError
from presage.traces.schema import Outcome

POLL_S = 0.1
LONG_S = 100_000.0
HOSTILE = (
    "two words", "", "-n", "--help", "a\"b'c", "$(touch pwned)", "`touch pwned`", "; touch pwned #", "a\nb", "*",
    "%j", "\\", "€ 例", "a,b=c|d", "${HOME}",
)  # fmt: skip
"""Texts that a shell, or a list in a text, would make something else of."""
NO_JOBS = ("999999999", "no-such-job", "", "../../etc", "1; touch pwned", "1,2", "-1", "9" * 5000, "1\n2")


class ConnectorContract:
    """What every kind of connector must do, and refuse to do.

    A subclass gives a fixture `connector`, and with `another` one more for the same cluster. A kind that runs no
    scripts says so and overrides `job`.
    """

    kind: ClassVar[str] = ""
    """Its name among `presage.connectors.CONNECTORS`; empty: it is not there."""
    executes: ClassVar[bool] = True
    """Whether scripts are really run, on a file system that this test sees."""
    fill: ClassVar[dict[str, Any]]
    """Fields of a submission that takes all there is, so that the next one waits."""
    too_much: ClassVar[dict[str, Any]]
    """Fields of a submission that the cluster refuses."""
    limit_s: ClassVar[float]
    """A limit, in the cluster's time, that a job passes soon enough for a test."""
    timeout_s: ClassVar[float] = 60.0
    """How long to wait for anything, in real seconds."""

    @pytest.fixture
    def connector(self) -> Connector:
        """The connector under test."""
        raise NotImplementedError

    def another(self, connector: Connector) -> Connector:
        """Return a connector that knows no more than its cluster does, as after a crash."""
        return connector

    @pytest.fixture
    def runs_scripts(self) -> None:
        """Skip where nothing is run."""
        if not self.executes:
            pytest.skip("this kind runs no scripts")

    def job(self, folder: Path, *, work_s: float = 0.0, exit_code: int = 0, **more: Any) -> Submission:
        """Return a job that works for so long, in the cluster's time, and ends with a code."""
        return self.submission(folder, f"sleep {work_s:g}; exit {exit_code}", **more)

    def submission(self, folder: Path, script: str, **more: Any) -> Submission:
        """Return a job of shell commands that works in `folder`."""
        text = f"#!/bin/sh\n{script}\n"
        fields = {"name": "contract", "working_directory": str(folder), "output": str(folder / "output-%j.txt")}
        return Submission(**{"key": uuid.uuid4().hex, "script": text, **fields, **more})

    def wait(
        self, connector: Connector, job_ids: Iterable[str], condition: Callable[[JobStatus], bool]
    ) -> dict[str, JobStatus]:
        """Return the jobs once all of them are as wanted."""
        ids, deadline = list(job_ids), time.monotonic() + self.timeout_s
        while True:
            found = connector.statuses(ids)
            if len(found) == len(ids) and all(map(condition, found.values())):
                return found
            assert time.monotonic() < deadline, f"waited {self.timeout_s:g} s in vain: {found}"
            time.sleep(POLL_S)

    def finish(self, connector: Connector, job_id: str) -> JobStatus:
        """Return a job once it has ended."""
        return self.wait(connector, [job_id], lambda status: status.is_final)[job_id]

    def run(self, connector: Connector, submission: Submission) -> JobStatus:
        """Submit a job and return it once it has ended."""
        return self.finish(connector, connector.submit(submission))

    def wait_to_run(self, connector: Connector, job_id: str) -> None:
        """Wait until a job runs."""
        self.wait(connector, [job_id], lambda status: status.state is Outcome.RUNNING)

    def test_it_is_of_the_kind_it_says(self, connector: Connector) -> None:
        assert not self.kind or type(connector) is CONNECTORS.get(self.kind)

    def test_a_job_runs_to_its_end(self, connector: Connector, tmp_path: Path) -> None:
        submission = self.job(tmp_path)
        status = self.run(connector, submission)
        assert (status.state, status.exit_code, status.signal) == (Outcome.COMPLETED, 0, None)
        assert status.key == submission.key
        assert status.submit_time is not None
        assert status.start_time is not None
        assert status.end_time is not None
        assert status.submit_time <= status.start_time <= status.end_time
        assert status.start_time.tzinfo is not None
        assert status.nodes == 1

    @pytest.mark.usefixtures("runs_scripts")
    def test_a_job_works_where_it_should_and_its_output_is_kept(
        self, connector: Connector, tmp_path: Path
    ) -> None:
        status = self.run(connector, self.submission(tmp_path, "echo out; pwd; echo err >&2"))
        self.assert_written(tmp_path / f"output-{status.job_id}.txt", f"out\n{tmp_path}\nerr\n")

    def assert_written(self, path: Path, text: str) -> None:
        """Wait for a file: what a job wrote may come after the word that it has ended."""
        deadline = time.monotonic() + self.timeout_s
        while not path.exists() or path.read_text() != text:
            assert time.monotonic() < deadline, path.read_text() if path.exists() else "no file"
            time.sleep(POLL_S)

    def test_failures_keep_their_code(self, connector: Connector, tmp_path: Path) -> None:
        status = self.run(connector, self.job(tmp_path, exit_code=7))
        assert (status.state, status.exit_code, status.signal) == (Outcome.FAILED, 7, None)

    @pytest.mark.usefixtures("runs_scripts")
    def test_failures_keep_their_signal(self, connector: Connector, tmp_path: Path) -> None:
        status = self.run(connector, self.submission(tmp_path, "kill -KILL $$"))
        assert (status.state, status.signal) == (Outcome.FAILED, 9)

    def test_running_and_waiting_jobs_are_cancelled(self, connector: Connector, tmp_path: Path) -> None:
        running = connector.submit(self.job(tmp_path, work_s=LONG_S, **self.fill))
        self.wait_to_run(connector, running)
        waiting = connector.submit(self.submission(tmp_path, "touch started"))
        status = connector.statuses([waiting])[waiting]
        assert (status.state, status.start_time, status.end_time) == (Outcome.PENDING, None, None)
        connector.cancel([waiting])
        assert self.finish(connector, waiting).state is Outcome.CANCELLED
        connector.cancel([running])
        assert self.finish(connector, running).state is Outcome.CANCELLED
        assert not (tmp_path / "started").exists()

    def test_cancelling_what_is_not_there_is_no_error(self, connector: Connector, tmp_path: Path) -> None:
        status = self.run(connector, self.job(tmp_path))
        connector.cancel([*NO_JOBS, status.job_id])
        connector.cancel([])
        assert connector.statuses([status.job_id])[status.job_id].state is Outcome.COMPLETED

    def test_a_job_is_ended_at_its_limit(self, connector: Connector, tmp_path: Path) -> None:
        status = self.run(connector, self.job(tmp_path, work_s=LONG_S, walltime_s=self.limit_s))
        assert (status.state, status.walltime_s) == (Outcome.TIMEOUT, self.limit_s)

    @pytest.mark.usefixtures("runs_scripts")
    def test_a_job_is_told_before_its_limit(self, connector: Connector, tmp_path: Path) -> None:
        script = f"trap 'echo told > {tmp_path}/told' USR1\nwhile :; do sleep 0.2; done"
        limit = {"walltime_s": self.limit_s, "signal": "USR1", "signal_before_s": self.limit_s / 2}
        status = self.run(connector, self.submission(tmp_path, script, **limit))
        assert status.state is Outcome.TIMEOUT
        self.assert_written(tmp_path / "told", "told\n")

    def test_many_jobs_are_asked_for_at_once(self, connector: Connector, tmp_path: Path) -> None:
        ids = [connector.submit(self.job(tmp_path, exit_code=code)) for code in range(3)]
        found = self.wait(connector, ids, lambda status: status.is_final)
        assert [found[job_id].exit_code for job_id in ids] == [0, 1, 2]
        assert set(connector.statuses([*NO_JOBS, *ids])) == set(ids)

    @pytest.mark.parametrize("job_id", NO_JOBS, ids=lambda job_id: repr(job_id)[:20])
    def test_unknown_jobs_are_left_out(self, connector: Connector, job_id: str) -> None:
        assert connector.statuses([job_id]) == {}
        assert connector.statuses([]) == {}

    def test_a_job_is_found_again_by_its_key(self, connector: Connector, tmp_path: Path) -> None:
        submission = self.job(tmp_path)
        job_id = connector.submit(submission)
        later = self.another(connector)
        assert later.find(submission.key) == job_id
        assert self.finish(later, job_id).key == submission.key
        assert later.find(submission.key) == job_id
        for key in (submission.key[:-1], "no-such-key", "", "../keys", "%", "*"):
            assert later.find(key) is None

    @pytest.mark.usefixtures("runs_scripts")
    def test_no_text_meets_a_shell(self, connector: Connector, tmp_path: Path) -> None:
        folder = tmp_path / "a folder; $(touch pwned) 'quoted'"
        folder.mkdir()
        variables = {f"HOSTILE_{number}": text for number, text in enumerate(HOSTILE)}
        values = " ".join(f'"${name}"' for name in variables)
        script = f"touch pwned-not\nprintf '%s\\0' \"$@\" > arguments\nprintf '%s\\0' {values} > values"
        submission = self.submission(
            folder,
            script,
            name='it\'s "a" $(touch pwned)\n`touch pwned`; touch pwned',
            comment="$(touch pwned)\n'; touch pwned",
            arguments=HOSTILE,
            environment=variables,
            output=None,
        )
        assert self.run(connector, submission).state is Outcome.COMPLETED
        for name in ("arguments", "values"):
            assert (folder / name).read_bytes().decode().split("\0")[:-1] == list(HOSTILE)
        assert not list(tmp_path.rglob("pwned"))

    def test_a_job_waits_for_others(self, connector: Connector, tmp_path: Path) -> None:
        first = connector.submit(self.job(tmp_path, work_s=1.0, exit_code=1))
        second = connector.submit(self.job(tmp_path, depends_on=(first,)))
        third = connector.submit(self.job(tmp_path, depends_on=(first,), only_after_success=True))
        found = self.wait(connector, [first, second, third], lambda status: status.is_final)
        assert found[second].state is Outcome.COMPLETED
        assert found[third].state is Outcome.CANCELLED
        end, start = found[first].end_time, found[second].start_time
        assert end is not None
        assert start is not None
        assert start >= end
        assert found[third].start_time is None

    def test_what_cannot_be_is_refused_in_words(self, connector: Connector, tmp_path: Path) -> None:
        with pytest.raises(ClusterRefusedError) as refusal:
            connector.submit(self.job(tmp_path, **self.too_much))
        assert isinstance(refusal.value, ConnectorError)
        assert len(str(refusal.value)) > 20

    def test_what_is_discovered_can_be_submitted_to(self, connector: Connector, tmp_path: Path) -> None:
        if not isinstance(connector, Discovers):
            pytest.skip("this kind does not discover")
        system = connector.discover("mine")
        assert system.name == "mine"
        partition = next(partition for partition in system.partitions if partition.enabled)
        node_type = system.node_type(partition.node_types[0])
        sizes: dict[str, Any] = {"partition": partition.name, "cores_per_node": node_type.cores}
        status = self.run(connector, self.job(tmp_path, **sizes))
        assert (status.state, status.partition) == (Outcome.COMPLETED, partition.name)

    def test_held_jobs_wait_until_they_are_released(self, connector: Connector, tmp_path: Path) -> None:
        if not isinstance(connector, HoldsJobs):
            pytest.skip("this kind does not hold jobs")
        first = connector.submit(self.job(tmp_path, work_s=LONG_S, **self.fill))
        held = connector.submit(self.job(tmp_path))
        connector.hold([held, *NO_JOBS])
        connector.cancel([first])
        self.finish(connector, first)
        time.sleep(0.5)
        assert connector.statuses([held])[held].state is Outcome.PENDING
        connector.release([held, *NO_JOBS])
        assert self.finish(connector, held).state is Outcome.COMPLETED

    @pytest.mark.usefixtures("runs_scripts")
    def test_a_running_job_is_told(self, connector: Connector, tmp_path: Path) -> None:
        if not isinstance(connector, SignalsJobs):
            pytest.skip("this kind does not signal")
        script = "trap 'exit 5' USR1\ntouch ready\nwhile :; do sleep 0.2; done"
        job_id = connector.submit(self.submission(tmp_path, script))
        self.assert_written(tmp_path / "ready", "")
        with pytest.raises(UsageError):
            connector.signal([job_id], "NO; SUCH")
        connector.signal([job_id, *NO_JOBS], "USR1")
        assert self.finish(connector, job_id).exit_code == 5
