from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.connectors import CONNECTORS, Connector, Submission
from presage.connectors.slurm import SlurmConnector
from presage.connectors.slurm.rest import SlurmRestConnector, jobs
from presage.connectors.slurm.rest.client import VERSIONS
from presage.connectors.slurm.rest.connector import VARIABLES
from presage.connectors.slurm.rest.payload import body_of
from presage.errors import (
    ClusterBusyError,
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    ConfigError,
    UsageError,
)
from presage.testing.connectors import ConnectorContract
from presage.testing.slurm import SlurmCluster, missing_for_slurm
from presage.traces.schema import Outcome

MIB = 2**20
RATE = 30
NODES = 2
NEEDED = {"accounting": True, "rest": True}
REASON = missing_for_slurm(**NEEDED)
CLOCK = ("LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED", "SLURM_CONF", "PATH")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    intervals = {"bf_interval": 10, "sched_interval": 10, "sched_min_interval": 0}
    config = {
        "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": 100, "AccountingStorageEnforce": "limits",
    }  # fmt: skip
    with SlurmCluster(
        nodes=NODES, cpus=2, rate=RATE, parameters=intervals, config=config, accounting=True, rest=True
    ) as slurm:
        user = slurm.run(["id", "-un"]).strip()
        for words in ("add account lab", f"add user {user} account=lab"):
            slurm.run(["sacctmgr", "--immediate", *words.split()])
        yield slurm


def connect(cluster: SlurmCluster, **changes: Any) -> SlurmRestConnector:
    environment = {name: cluster.environment[name] for name in CLOCK}
    return SlurmRestConnector(**{"address": cluster.rest_socket, "environment": environment, **changes})


@pytest.mark.skipif(bool(REASON), reason=REASON or "Slurm is here")
@pytest.mark.slow
class TestSlurmRest(ConnectorContract):
    kind = "slurm-rest"
    fill: ClassVar[dict[str, Any]] = {"nodes": NODES, "cores_per_node": 2, "walltime_s": 36_000.0}
    too_much: ClassVar[dict[str, Any]] = {"partition": "nowhere"}
    limit_s = 120.0

    @pytest.fixture
    def connector(self, cluster: SlurmCluster) -> Iterator[SlurmRestConnector]:
        yield connect(cluster)
        cluster.run(["scancel", "--quiet", *(cluster.run(["squeue", "-h", "-o", "%A"]).split() or ["1"])])

    def another(self, connector: Connector) -> Connector:
        assert isinstance(connector, SlurmRestConnector)
        return SlurmRestConnector(connector.client.address)

    def test_every_version_does(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        for version in VERSIONS:
            connector = connect(cluster)
            connector.client._version = version
            submission = self.job(tmp_path, exit_code=3, walltime_s=180, memory_bytes=50 * MIB, requeue=False)
            status = self.run(connector, submission)
            assert (status.state, status.exit_code) == (Outcome.FAILED, 3)
            assert (status.key, status.walltime_s, status.memory_bytes) == (submission.key, 180.0, 50 * MIB)
            assert connector.find(submission.key) == status.job_id
            assert "Requeue=0" in cluster.run(["scontrol", "show", "job", status.job_id])

    def test_a_token_opens_the_port(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        told = tmp_path / "token"
        with pytest.raises(ClusterUnreachableError, match="cannot be read"):
            connect(cluster, address=cluster.rest_address, token=told).statuses(["1"])
        told.write_text("no.such.token")
        connector = connect(cluster, address=cluster.rest_address, token=told)
        with pytest.raises(ClusterUnreachableError):
            connector.submit(self.job(tmp_path))
        told.write_text(cluster.run(["scontrol", "token", "lifespan=360000"]))
        assert self.run(connector, self.job(tmp_path)).state is Outcome.COMPLETED

    def test_what_a_script_says_for_itself_counts(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        connector = connect(cluster)
        script = f"#!/bin/bash\n#SBATCH -N2 --time 7 -o {tmp_path}/own\n#SBATCH --job-name='a b'\necho $0 $#\n"
        job_id = connector.submit(Submission("k1", "given", script, working_directory=str(tmp_path)))
        status = self.finish(connector, job_id)
        assert (status.nodes, status.walltime_s) == (2, 420.0)
        assert cluster.jobs()[int(job_id)].name == "given"
        assert (tmp_path / "own").read_text().endswith(" 0\n")

    def test_scripts_of_any_language_get_their_arguments(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        connector = connect(cluster)
        script = "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\nsys.exit(4)\n"
        submission = self.submission(tmp_path, "", arguments=("a b", "$(x)"), walltime_s=6000, signal="USR1")
        status = self.run(connector, replace(submission, script=script))
        assert status.exit_code == 4
        self.assert_written(tmp_path / f"output-{status.job_id}.txt", "['a b', '$(x)']\n")

    def test_what_ended_is_read_from_the_accounting(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        connector = connect(cluster)
        begin = datetime.fromtimestamp(cluster.now_s(), UTC)
        submission = self.submission(tmp_path, "sleep 20", name="remembered", memory_bytes=50 * MIB)
        status = self.run(connector, submission)
        (recorded,) = jobs.records(connector.client, [status.job_id])
        assert (recorded.state, recorded.key, recorded.nodes) == (Outcome.COMPLETED, submission.key, 1)
        assert (recorded.exit_code, recorded.memory_bytes) == (0, 50 * MIB)
        assert recorded.max_rss_bytes
        assert recorded.end_time == status.end_time
        user = cluster.run(["id", "-un"]).strip()
        trace = connector.history(begin, user)
        assert "remembered" in trace.jobs["name"].to_list()
        assert len(connector.history(datetime.fromtimestamp(cluster.now_s() + 9999, UTC), user)) == 0
        assert len(connector.history(begin, "nobody-here")) == 0

    def test_a_full_queue_is_not_a_refusal_for_good(self, cluster: SlurmCluster, tmp_path: Path) -> None:
        by_rest, by_command = connect(cluster), SlurmConnector(cluster.environment)
        limited = "modify qos normal set MaxSubmitJobsPerUser=1 MaxTRESPerJob=cpu=2 Flags=DenyOnLimit"
        try:
            cluster.run(["sacctmgr", "--immediate", *limited.split()])
            wait_until(lambda: "MaxSubmitJobsPU=1" in cluster.run(["scontrol", "show", "assoc_mgr", "flags=qos"]))
            large = self.job(tmp_path, nodes=2, cores_per_node=2)
            for connector in (by_rest, by_command):
                with pytest.raises(ClusterRefusedError, match="policy"):
                    connector.submit(large)  # nobody is in the queue: it will never be taken
            first = by_rest.submit(self.job(tmp_path, work_s=10_000))
            for connector in (by_rest, by_command):
                with pytest.raises(ClusterBusyError, match="submit limit"):
                    connector.submit(self.job(tmp_path))
            by_rest.cancel([first])
        finally:
            reset = "modify qos normal set MaxSubmitJobsPerUser=-1 MaxTRESPerJob=cpu=-1 Flags-=DenyOnLimit"
            cluster.run(["sacctmgr", "--immediate", *reset.split()])


def wait_until(condition: Callable[[], bool], most_s: float = 20.0) -> None:
    deadline = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Fake(BaseHTTPRequestHandler):
    """A slurmrestd that answers from a table: what the real one says only when it is in trouble."""

    answers: ClassVar[dict[str, tuple[int, str]]] = {}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status, text = self.answers.get(path, (404, "Unable find requested URL."))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def fake() -> Iterator[Callable[[dict[str, tuple[int, str]]], SlurmRestConnector]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    def answering(answers: dict[str, tuple[int, str]]) -> SlurmRestConnector:
        Fake.answers = {"/slurm/v0.0.37/ping": (200, "{}"), **answers}
        return SlurmRestConnector(f"http://127.0.0.1:{server.server_port}", user="ann", token="t")

    yield answering
    server.shutdown()
    thread.join()
    server.server_close()


def errors(*words: str, **more: Any) -> str:
    return json.dumps({"errors": [{"error": each} for each in words], **more})


JOB = Submission("k", "n", "#!/bin/sh\n")
SUBMIT = "/slurm/v0.0.37/job/submit"
LIST = "/slurm/v0.0.37/jobs"
RECORDS = "/slurmdb/v0.0.37/jobs"
UNREACHABLE = "Unable to contact slurm controller (connect failure)"
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (500, errors("Invalid partition name specified"), ClusterRefusedError),
        (400, errors("Unknown key", "Failure during parsing"), ClusterRefusedError),
        (500, errors("Resource temporarily unavailable"), ClusterBusyError),
        (500, errors(UNREACHABLE), ClusterUnreachableError),
        (401, "Authentication failure", ClusterUnreachableError),
        (200, "<html>a proxy</html>", ClusterUnreachableError),
        (502, "<html>a proxy</html>", ClusterUnreachableError),
        (400, "Unable to parse query.", ClusterRefusedError),
        (200, "{}", ClusterUnreachableError),
        (200, errors(job_id="1;2"), ClusterUnreachableError),
    ],
)
def test_what_slurmrestd_says_has_a_name(fake: Any, status: int, text: str, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised:
        fake({SUBMIT: (status, text)}).submit(JOB)
    assert type(raised.value) is expected


def test_a_job_that_is_in_is_taken_with_whatever_error(fake: Any) -> None:
    assert fake({SUBMIT: (200, errors("Job is held", job_id=7))}).submit(JOB) == "7"


@pytest.mark.parametrize(
    ("state", "user", "expected"),
    [("PENDING", "ann", ClusterBusyError), ("COMPLETED", "ann", ClusterRefusedError),
     ("PENDING", "bob", ClusterRefusedError)],
)  # fmt: skip
def test_a_limit_without_a_name_is_for_now_while_there_are_jobs(
    fake: Any, state: str, user: str, expected: type[Exception]
) -> None:
    listed = {"jobs": [{"job_id": 5, "job_state": state, "user_name": user}]}
    connector = fake({SUBMIT: (500, errors(POLICY)), LIST: (200, json.dumps(listed))})
    with pytest.raises(expected):
        connector.submit(JOB)


def test_lists_that_cannot_be_had_are_not_empty_ones(fake: Any) -> None:
    away = (500, errors("Unspecified error", jobs=[]))
    for answers in ({LIST: away}, {LIST: (200, '{"jobs": []}'), RECORDS: (200, errors("no slurmdbd", jobs=[]))}):
        with pytest.raises(ClusterUnreachableError):
            fake(answers).statuses(["7"])
        with pytest.raises(ClusterUnreachableError):
            fake(answers).find("k")
    nothing = {LIST: (200, '{"jobs": []}'), RECORDS: (200, errors("Nothing found", jobs=[]))}
    assert fake(nothing).statuses(["7"]) == {}
    without_accounting = fake({LIST: (200, '{"jobs": []}')})
    assert without_accounting.statuses(["7"]) == {}
    assert without_accounting.find("k") is None
    with pytest.raises(ClusterRefusedError, match="keeps no records"):
        without_accounting.history(datetime(2026, 1, 1, tzinfo=UTC))


def test_jobs_of_others_have_no_key_of_ours(fake: Any) -> None:
    comments = [("ann", "presage:key=k1 x"), ("bob", "presage:key=k2"), ("ann", "presage:key=k12")]
    listed = [
        {"job_id": number, "job_state": "RUNNING", "user_name": user, "comment": comment}
        for number, (user, comment) in enumerate(comments, 1)
    ]
    strange = [{"job_id": None}, {"job_id": {"a": 1}, "job_state": []}, 7, {"job_state": "RUNNING"}]
    connector = fake({LIST: (200, json.dumps({"jobs": [*listed, *strange]}))})
    assert connector.find("k1") == "1"
    assert connector.find("k2") is None
    assert set(connector.statuses(["1", "2", "9", "x"])) == {"1", "2"}


def test_the_accounting_of_22_05_does_not_know_what_a_failed_job_returned(fake: Any) -> None:
    def record(state: str, code: dict[str, Any]) -> dict[str, Any]:
        return {"job_id": 7, "state": {"current": state}, "exit_code": code, "time": {"end": 1_800_000_000}}

    cases = [
        (record("FAILED", {"return_code": 0}), (None, None)),
        (record("COMPLETED", {"return_code": 0}), (0, None)),
        (record("FAILED", {"return_code": 0, "signal": {"signal_id": 9}}), (0, 9)),
    ]
    for job, expected in cases:
        text = json.dumps({"jobs": [job]})
        status = fake({LIST: (200, '{"jobs": []}'), RECORDS: (200, text)}).statuses(["7"])["7"]
        assert (status.exit_code, status.signal) == expected


def test_a_slurmrestd_of_other_versions_is_named(fake: Any) -> None:
    connector = fake({"/slurm/v0.0.37/ping": (404, "")})
    with pytest.raises(ClusterUnreachableError, match=r"v0\.0\.38"):
        connector.statuses(["7"])


def test_silence_has_a_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connector = SlurmRestConnector(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.1)
        with pytest.raises(ClusterTimeoutError):
            connector.statuses(["7"])
    with pytest.raises(ClusterUnreachableError):
        connector.statuses(["7"])


@pytest.mark.parametrize("address", ["", "slurm", "ftp://x", "http://", "http://[", "http://cluster.example:6820"])
def test_addresses_that_are_none_or_unsafe_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLES["address"], raising=False)
    with pytest.raises((UsageError, ConfigError)):
        CONNECTORS.get("slurm-rest")(address)  # type: ignore[call-arg]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLES["address"], "https://cluster.example/")
    monkeypatch.setenv(VARIABLES["user"], "ann")
    monkeypatch.setenv(VARIABLES["token_file"], str(tmp_path / "token"))
    (tmp_path / "token").write_text("SLURM_JWT=a.b.c\n")
    client = SlurmRestConnector().client
    assert client._headers()["X-SLURM-USER-TOKEN"] == "a.b.c"
    assert (client.address, client.user) == ("https://cluster.example", "ann")
    (tmp_path / "token").write_text("two\nlines")
    with pytest.raises(UsageError):
        client._headers()


def test_bodies_say_what_was_asked_for() -> None:
    script = "#!/bin/sh\n#SBATCH --mem=1G -c 4 --exclusive # all of it\n\ntrue\n#SBATCH --nodes=9\n"
    submission = Submission(
        "k", "n", script, partition="gpu", nodes=2, gpus_per_node=2, gpu_type="a100", memory_bytes=10 * MIB,
        walltime_s=90, depends_on=("5",), requeue=False, working_directory="/w", environment={"A": "1"},
    )  # fmt: skip
    body = body_of(submission, {"PATH": "/bin"})
    assert body == {
        "script": script,
        "job": {
            "name": "n", "comment": "presage:key=k", "current_working_directory": "/w", "partition": "gpu",
            "nodes": "2", "ntasks": 2, "gpus_per_node": "a100:2", "memory_per_node": "10M",
            "time_limit": "00:01:30", "dependency": "afterany:5", "kill_on_invalid_dependency": True,
            "no_requeue": True, "cpus_per_task": "4", "exclusive": True, "environment": {"PATH": "/bin", "A": "1"},
        },
    }  # fmt: skip


@pytest.mark.parametrize("line", ["-Z 4", "--name='x", "word"])
def test_directives_that_cannot_be_understood_are_refused(line: str) -> None:
    with pytest.raises(UsageError):
        body_of(Submission("k", "n", f"#!/bin/sh\n#SBATCH {line}\n"), {})


def test_a_script_is_told_in_whole_minutes_and_its_end_is_not_its_own() -> None:
    submission = Submission(
        "k", "n", "#!/bin/sh -e\ncat <<END\nEND", walltime_s=61, signal="USR1", signal_before_s=30.5
    )
    lines = body_of(submission, {})["script"].splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1].startswith("( (sleep 89; kill -s USR1 $$)")
    assert lines[2].startswith("exec /bin/sh -e /dev/fd/3 3<<'END-")
    assert lines[3:6] == submission.script.splitlines()
    assert lines[6] == lines[2][-len(lines[6]) - 1 : -1]
    limitless = Submission("k", "n", "#!/bin/sh\n", signal="USR1")
    assert body_of(limitless, {})["script"] == limitless.script


def test_half_characters_are_refused() -> None:
    with pytest.raises(UsageError, match="whole characters"):
        SlurmRestConnector("unix:/nowhere").client._send("POST", "x", None, {"a": "\udcff"})
