from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.connectors import CONNECTORS, Connector
from presage.connectors.local import LocalConnector
from presage.connectors.local.processes import look_at
from presage.connectors.local.state import read_json
from presage.errors import ClusterRefusedError, ClusterUnreachableError, UsageError
from presage.testing.connectors import ConnectorContract
from presage.traces.schema import Outcome

MIB = 2**20
HOLD_MEMORY = f"exec {sys.executable} -c 'import time; held = b\"1\" * (300 << 20); time.sleep(1000)'"


class TestLocal(ConnectorContract):
    kind: ClassVar[str] = "local"
    fill: ClassVar[dict[str, Any]] = {"cores_per_node": 2}
    too_much: ClassVar[dict[str, Any]] = {"nodes": 2}
    limit_s = 2.0

    @pytest.fixture
    def connector(self, tmp_path: Path) -> Iterator[LocalConnector]:
        connector = LocalConnector(tmp_path / "state", cores=2, grace_s=0.5)
        yield connector
        left = [path.name for path in (tmp_path / "state" / "jobs").iterdir()]
        connector.cancel(left)
        self.wait(connector, left, lambda status: status.is_final)

    def another(self, connector: Connector) -> Connector:
        assert isinstance(connector, LocalConnector)
        return LocalConnector(connector._state.folder)

    def test_a_job_over_its_memory_is_killed(self, connector: LocalConnector, tmp_path: Path) -> None:
        status = self.run(connector, self.submission(tmp_path, HOLD_MEMORY, memory_bytes=100 * MIB))
        assert (status.state, status.signal) == (Outcome.OUT_OF_MEMORY, signal.SIGKILL)
        assert status.max_rss_bytes is not None
        assert status.max_rss_bytes > 100 * MIB
        assert status.memory_bytes == 100 * MIB

    def test_memory_of_all_processes_counts(self, connector: LocalConnector, tmp_path: Path) -> None:
        part = HOLD_MEMORY.replace("300", "60").replace("exec", "setsid") + " &"
        script = "\n".join([part] * 3 + ["wait"])
        status = self.run(connector, self.submission(tmp_path, script, memory_bytes=150 * MIB))
        assert status.state is Outcome.OUT_OF_MEMORY

    def test_nothing_is_left_of_a_cancelled_job(self, connector: LocalConnector, tmp_path: Path) -> None:
        stubborn = "setsid sh -c 'trap \"\" TERM; echo $$ > a; sleep 1000' &"
        script = f"trap '' TERM\n{stubborn}\nsleep 1000 & echo $! > b\nwait"
        job_id = connector.submit(self.submission(tmp_path, script))
        for name in ("a", "b"):
            self.wait_for(lambda name=name: (tmp_path / name).exists() and bool((tmp_path / name).read_text()))
        pids = [int((tmp_path / name).read_text()) for name in ("a", "b")]
        connector.cancel([job_id])
        assert self.finish(connector, job_id).state is Outcome.CANCELLED
        assert not any(is_running(pid) for pid in pids)

    def test_nothing_is_left_when_the_script_has_ended(self, connector: LocalConnector, tmp_path: Path) -> None:
        status = self.run(connector, self.submission(tmp_path, "setsid sleep 1000 & echo $! > a; exit 0"))
        assert status.state is Outcome.COMPLETED
        assert not is_running(int((tmp_path / "a").read_text()))

    def test_the_submitting_process_may_die(self, connector: LocalConnector, tmp_path: Path) -> None:
        code = (
            "import os, sys; from presage.connectors.local import LocalConnector\n"
            "from presage.connectors import Submission\n"
            "os.chdir(sys.argv[1])\n"
            "job = Submission('k', 'n', '#!/bin/sh\\nsleep 1; exit 4')\n"
            "after = Submission('k2', 'n', '#!/bin/sh\\nexit 6', depends_on=('1',))\n"
            "queue = LocalConnector(sys.argv[2]); print(queue.submit(job), queue.submit(after), flush=True)\n"
            "os.kill(os.getpid(), 9)"
        )
        command = [sys.executable, "-c", code, str(tmp_path), str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (-signal.SIGKILL, "1 2\n")
        # Nobody asks, and still the second job is started when the first has ended.
        status = tmp_path / "state" / "jobs" / "2" / "status.json"
        self.wait_for(lambda: read_json(status).get("exit_code") == 6)
        assert connector.find("k") == "1"
        assert connector.statuses(["1"])["1"].exit_code == 4

    def test_a_job_whose_watcher_was_killed_has_failed(self, connector: LocalConnector, tmp_path: Path) -> None:
        job_id = connector.submit(self.submission(tmp_path, "sleep 1000 & echo $! > a; wait", **self.fill))
        next_id = connector.submit(self.submission(tmp_path, "true"))
        self.wait_for(lambda: (tmp_path / "a").exists() and bool((tmp_path / "a").read_text()))
        os.kill(read_json(tmp_path / "state" / "jobs" / job_id / "runner.json")["pid"], signal.SIGKILL)
        assert self.finish(connector, job_id).state is Outcome.NODE_FAILURE
        assert self.finish(connector, next_id).state is Outcome.COMPLETED
        assert not is_running(int((tmp_path / "a").read_text()))

    def test_a_job_does_not_outlive_its_queue(self, tmp_path: Path) -> None:
        queue = LocalConnector(tmp_path / "deleted", grace_s=0.5)
        job_id = queue.submit(self.submission(tmp_path, "echo $$ > a; sleep 1000"))
        self.wait_for(lambda: (tmp_path / "a").exists() and bool((tmp_path / "a").read_text()))
        self.wait_for(lambda: queue.statuses([job_id])[job_id].start_time is not None)
        shutil.rmtree(tmp_path / "deleted")
        self.wait_for(lambda: not is_running(int((tmp_path / "a").read_text())))

    def test_cores_are_shared_first_come_first_served(self, connector: LocalConnector, tmp_path: Path) -> None:
        sizes = [2, 1, 1, 2]
        jobs = [self.submission(tmp_path, "sleep 0.3", cores_per_node=size) for size in sizes]
        ids = [connector.submit(job) for job in jobs]
        found = self.wait(connector, ids, lambda status: status.is_final)
        starts = [found[job_id].start_time for job_id in ids]
        ends = [found[job_id].end_time for job_id in ids]
        assert None not in starts
        assert all(start >= ends[0] for start in starts[1:])  # type: ignore[operator]
        assert starts[3] >= max(ends[1], ends[2])  # type: ignore[operator,type-var]

    def test_the_same_key_is_the_same_job(self, connector: LocalConnector, tmp_path: Path) -> None:
        submission = self.submission(tmp_path, "echo once >> a")
        job_id = connector.submit(submission)
        assert connector.submit(submission) == job_id
        self.finish(connector, job_id)
        assert (tmp_path / "a").read_text() == "once\n"

    def test_a_key_left_by_a_crash_finds_nothing(self, connector: LocalConnector, tmp_path: Path) -> None:
        (tmp_path / "state" / "keys" / "left").write_text("1")
        assert connector.find("left") is None
        connector.submit(self.submission(tmp_path, "true"))
        assert connector.find("left") is None

    def test_an_interpreter_that_is_not_there_is_a_failure(
        self, connector: LocalConnector, tmp_path: Path
    ) -> None:
        status = self.run(connector, replace(self.submission(tmp_path, ""), script="#!/no/such/shell\n"))
        assert (status.state, status.exit_code) == (Outcome.FAILED, 127)
        assert "/no/such/shell" in status.reason

    def test_any_interpreter_will_do(self, connector: LocalConnector, tmp_path: Path) -> None:
        script = f"#! {sys.executable} -I\nimport sys\nsys.exit(len(sys.argv))\n"
        submission = replace(self.submission(tmp_path, "", arguments=("a b", "c")), script=script)
        status = self.run(connector, submission)
        assert status.exit_code == 3

    def test_our_own_settings_are_not_passed_on(
        self, connector: LocalConnector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PRESAGE_SECRET", "a token")
        monkeypatch.setenv("AMBIENT", "yes")
        script = 'echo "$PRESAGE_SECRET,$AMBIENT,$PRESAGE_GIVEN" > a'
        self.run(connector, self.submission(tmp_path, script, environment={"PRESAGE_GIVEN": "too"}))
        assert (tmp_path / "a").read_text() == ",yes,too\n"

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"cores_per_node": 3}, "3 cores"),
            ({"gpus_per_node": 1}, "1 gpus"),
            ({"partition": "gpu"}, "no partition 'gpu'"),
            ({"depends_on": ("77",)}, "no job '77'"),
            ({"working_directory": "/no/such/folder"}, "no folder"),
        ],
    )
    def test_what_this_machine_has_not_is_refused(
        self, connector: LocalConnector, tmp_path: Path, fields: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(ClusterRefusedError, match=words):
            connector.submit(self.submission(tmp_path, "true", **fields))
        assert not list((tmp_path / "state" / "jobs").iterdir())

    def wait_for(self, condition: Any) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def is_running(pid: int) -> bool:
    process = look_at(pid)
    return process is not None and not process.is_zombie


def test_capacity_is_remembered_with_the_folder(tmp_path: Path) -> None:
    LocalConnector(tmp_path / "state", cores=3, gpus=1)
    assert LocalConnector(tmp_path / "state").capacity == {"cores": 3, "gpus": 1}
    assert LocalConnector(tmp_path / "state", gpus=0).capacity == {"cores": 3, "gpus": 0}


def test_it_is_at_home_where_presage_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "home"))
    assert CONNECTORS.get("local")().statuses(["1"]) == {}
    assert (tmp_path / "home" / "local" / "queue.json").is_file()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterUnreachableError, match="file"):
        LocalConnector(tmp_path / "file" / "state")
    with pytest.raises(UsageError, match="at least one core"):
        LocalConnector(tmp_path, cores=0)


def test_the_process_that_watches_a_job_is_small() -> None:
    code = "import sys, presage.connectors.local.runner; print('polars' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False False\n"
