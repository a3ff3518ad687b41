from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from presage.client.callbacks import KINDS
from presage.client.run import EXIT_TO_BE_CONTINUED
from presage.connectors import CONNECTORS, Connector
from presage.connectors.tapis import Application, Runtime, TapisConnector
from presage.connectors.tapis.programs import run_program
from presage.database import Database
from presage.errors import (
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    ConfigError,
    UsageError,
)
from presage.orchestrator.embedded import Clusters
from presage.orchestrator.jobs import FINAL, Ending, ManagedJob, Order, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import Store
from presage.testing.connectors import LONG_S, ConnectorContract
from presage.testing.tapis import FakeTapis
from presage.traces.schema import Outcome

RATE = 25
NODES = 2
GIB = 2**30
ESTIMATOR = Path(__file__).parents[2] / "containers" / "peak-memory" / "estimator.py"
APPLICATION = Application(image="docker://example.org/training:1")
LOGIN = {"username": FakeTapis.username, "password": FakeTapis.password}


def connect(base_url: str, **more: Any) -> TapisConnector:
    return TapisConnector(base_url, **{"system": FakeTapis.system, "application": APPLICATION, **LOGIN, **more})


@pytest.fixture(scope="module")
def tapis() -> Iterator[FakeTapis]:
    with FakeTapis(nodes=NODES, rate=RATE) as server:
        yield server


class TestTapis(ConnectorContract):
    kind: ClassVar[str] = "tapis"
    fill: ClassVar[dict[str, Any]] = {"nodes": NODES, "walltime_s": 72_000.0}
    too_much: ClassVar[dict[str, Any]] = {"partition": "nowhere"}
    limit_s = 60.0

    @pytest.fixture
    def connector(self, tapis: FakeTapis) -> Iterator[TapisConnector]:
        connector = connect(tapis.base_url)
        yield connector
        connector.cancel(list(tapis.machine.jobs))

    def another(self, connector: Connector) -> Connector:
        assert isinstance(connector, TapisConnector)
        return connect(connector.client.base_url)

    @pytest.mark.parametrize(
        ("condition", "words", "expected"),
        [
            ("SCHEDULER_OUT_OF_MEMORY", "", Outcome.OUT_OF_MEMORY),
            ("SCHEDULER_TERMINATED", "job 1001 is NODE_FAIL", Outcome.NODE_FAILURE),
            ("SCHEDULER_CANCELLED", "", Outcome.CANCELLED),
        ],
    )
    def test_the_scheduler_of_the_system_may_end_a_job(
        self,
        connector: TapisConnector,
        tapis: FakeTapis,
        tmp_path: Path,
        condition: str,
        words: str,
        expected: Outcome,
    ) -> None:
        job_id = connector.submit(self.job(tmp_path, work_s=LONG_S, memory_bytes=GIB))
        self.wait_to_run(connector, job_id)
        tapis.machine.end(job_id, condition, words)
        status = self.finish(connector, job_id)
        assert (status.state, status.memory_bytes) == (expected, GIB)
        assert status.reason.startswith(condition)

    def test_any_number_of_jobs_is_one_call(
        self, connector: TapisConnector, tapis: FakeTapis, tmp_path: Path
    ) -> None:
        ids = [connector.submit(self.job(tmp_path, work_s=LONG_S)) for _ in range(3)]
        others = [f"{number:08x}-0000-0000-0000-000000000000-007" for number in range(2000)]
        before = len(tapis.calls)
        assert set(connector.statuses([*others, *ids])) == set(ids)
        assert tapis.calls[before:] == ["jobs.getJobSearchListByPostSqlStr"]

    def test_the_cluster_is_what_tapis_says_it_is(self, connector: TapisConnector) -> None:
        system = connector.discover()
        assert (system.name, system.scheduler, system.connection["system"]) == (
            "fake-cluster",
            "tapis",
            "fake-cluster",
        )
        (node_type,) = system.node_types
        assert (node_type.cores, node_type.memory_bytes, node_type.count) == (4, 8 * GIB, None)
        normal, development = system.partitions
        assert (normal.name, normal.limits.max_nodes, normal.limits.max_walltime_s) == ("normal", 2, 172_800.0)
        assert (development.limits.min_walltime_s, development.limits.user_submitted_jobs) == (60.0, 50)
        assert system.policies["default partition"] == "normal"

    def test_what_a_job_tells_is_kept_with_it(self, connector: TapisConnector, tmp_path: Path) -> None:
        job_id = connector.submit(self.job(tmp_path, work_s=LONG_S))
        connector.tell(job_id, {"done": 3, "total": 10})
        connector.tell(job_id, {"loss": 0.5}, "performance")
        told = connector.told(job_id)
        assert [event.detail for event in told] == ["progress", "performance"]
        assert json.loads(told[0].text) == {"done": 3, "total": 10}
        assert told[0].time is not None
        with pytest.raises(UsageError, match="too long"):
            connector.tell(job_id, {"text": "x" * 20_000})

    def test_a_job_is_told_before_a_limit_that_is_tapiss_own(
        self, connector: TapisConnector, tmp_path: Path
    ) -> None:
        script = "trap 'exit 9' USR1\nwhile :; do sleep 0.1; done"
        status = self.run(connector, self.submission(tmp_path, script, signal="USR1", signal_before_s=590.0))
        assert (status.exit_code, status.walltime_s) == (9, 600.0)

    def test_a_limit_that_is_no_whole_minute_becomes_one(self, connector: TapisConnector, tmp_path: Path) -> None:
        job_id = connector.submit(self.job(tmp_path, walltime_s=61.0))
        assert connector.statuses([job_id])[job_id].walltime_s == 120.0

    def test_a_folder_that_is_not_there_fails_in_words(
        self, connector: TapisConnector, tapis: FakeTapis, tmp_path: Path
    ) -> None:
        status = self.run(connector, self.job(tmp_path / "nowhere", output=None))
        assert (status.state, status.exit_code) == (Outcome.FAILED, 126)
        said = (tapis.machine.jobs[status.job_id].folder / "tapisjob.out").read_text()
        assert "nowhere" in said

    def test_a_job_cannot_wait_for_what_never_comes(self, connector: TapisConnector, tmp_path: Path) -> None:
        failed = self.run(connector, self.job(tmp_path, exit_code=1)).job_id
        with pytest.raises(ClusterRefusedError, match="did not complete"):
            connector.submit(self.job(tmp_path, depends_on=(failed,), only_after_success=True))
        for unknown in ("17", "00000000-0000-0000-0000-000000000000-007"):
            with pytest.raises(ClusterRefusedError, match="no job"):
                connector.submit(self.job(tmp_path, depends_on=(unknown,)))
        assert self.run(connector, self.job(tmp_path, depends_on=(failed,))).state is Outcome.COMPLETED

    def test_nobody_sees_the_jobs_of_another(
        self, connector: TapisConnector, tapis: FakeTapis, tmp_path: Path
    ) -> None:
        submission = self.job(tmp_path, work_s=LONG_S)
        job_id = connector.submit(submission)
        tapis.services.users["stranger"] = "else"
        stranger = connect(tapis.base_url, username="stranger", password="else")
        assert stranger.statuses([job_id]) == {}
        assert stranger.find(submission.key) is None
        with pytest.raises(ClusterRefusedError, match="JOBS_MISMATCHED_OWNER"):
            stranger.cancel([job_id])
        assert not connector.statuses([job_id])[job_id].is_final

    def test_a_job_whose_answer_was_lost_is_found_and_not_submitted_twice(
        self, tapis: FakeTapis, tmp_path: Path
    ) -> None:
        connector = connect(tapis.base_url, transport=LosesAnswers("/jobs/submit"), timeout_s=5.0)
        submission = self.job(tmp_path)
        with pytest.raises(ClusterTimeoutError, match="may still have been done"):
            connector.submit(submission)
        job_id = connector.find(submission.key)
        assert job_id is not None
        assert tapis.machine.jobs[job_id].facts["tags"] == ["presage", f"presage:key={submission.key}"]
        assert sum(submission.key in job.facts["notes"] for job in tapis.machine.jobs.values()) == 1


class LosesAnswers(httpx.BaseTransport):
    """Passes requests on, and keeps the answers to those for one path to itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._inner = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        if request.url.path.endswith(self._path):
            response.read()
            raise httpx.ReadTimeout("lost", request=request)
        return response


def test_tokens_are_renewed_before_they_end_and_when_they_are_refused(tapis: FakeTapis) -> None:
    connector = connect(tapis.base_url)
    before = len(tapis.calls)
    tapis.services.token_s = 30.0  # shorter than the time in advance: a new one each time
    try:
        connector.find("a")
        connector.find("a")
    finally:
        tapis.services.token_s = 14_400.0
    assert tapis.calls[before:].count("authenticator.create_token") == 2
    connector.find("a")
    connector.find("a")
    assert tapis.calls[before:].count("authenticator.create_token") == 3
    old = tapis.services.signer
    try:
        tapis.services.signer = type(old)()  # as if the tenant had changed its keys
        connector.find("a")
    finally:
        tapis.services.signer = old
    assert tapis.calls[before:].count("authenticator.create_token") == 4


def test_a_token_alone_is_enough_until_it_ends(tapis: FakeTapis) -> None:
    def token(lifetime_s: float) -> str:
        return tapis.services.signer.sign({"tapis/username": FakeTapis.username}, lifetime_s)

    by_token = {"username": None, "password": None}
    assert connect(tapis.base_url, **by_token, token=token(1000)).find("a") is None
    assert connect(tapis.base_url, **by_token, token=lambda: token(1000)).find("a") is None
    before = len(tapis.calls)
    with pytest.raises(ClusterRefusedError, match="has ended"):
        connect(tapis.base_url, **by_token, token=token(-1)).find("a")
    assert len(tapis.calls) == before
    with pytest.raises(ClusterRefusedError, match="401"):
        connect(tapis.base_url, **by_token, token="forged.token.here").find("a")


def test_a_wrong_password_is_refused_and_not_repeated(tapis: FakeTapis) -> None:
    connector = connect(tapis.base_url, password="very-wrong")
    with pytest.raises(ClusterRefusedError, match="Invalid username") as refusal:
        connector.find("a")
    assert "very-wrong" not in str(refusal.value)


def test_an_application_is_registered_once(tapis: FakeTapis) -> None:
    wanted = Application("trainer", "2", "docker://example.org/trainer:2", Runtime.DOCKER)
    before = len(tapis.calls)
    for _ in range(2):
        connector = connect(tapis.base_url, application=wanted)
        connector.register()
        connector.register()
    asked = [call for call in tapis.calls[before:] if call.startswith("apps.")]
    assert asked == ["apps.getApp", "apps.createAppVersion", "apps.getApp"]
    assert tapis.services.apps["trainer", "2"]["runtime"] == "DOCKER"
    other = Application("trainer", "2", "docker://example.org/other", Runtime.DOCKER)
    with pytest.raises(ClusterRefusedError, match="Choose another version"):
        connect(tapis.base_url, application=other).register()
    with pytest.raises(ClusterRefusedError, match="Name its container image"):
        connect(tapis.base_url, application=Application("absent")).register()
    connect(tapis.base_url, application=Application("trainer", "2")).register()


def test_settings_come_from_the_environment(tapis: FakeTapis, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = CONNECTORS.get("tapis")
    with pytest.raises(ConfigError, match="PRESAGE_TAPIS_TOKEN"):
        kind()
    monkeypatch.setenv("PRESAGE_TAPIS_USERNAME", FakeTapis.username)
    monkeypatch.setenv("PRESAGE_TAPIS_PASSWORD", FakeTapis.password)
    monkeypatch.setenv("PRESAGE_TAPIS_SYSTEM", FakeTapis.system)
    with pytest.raises(ConfigError, match="PRESAGE_TAPIS_URL"):
        kind()
    monkeypatch.setenv("PRESAGE_TAPIS_URL", tapis.base_url)
    assert kind().find("a") is None


@pytest.fixture
def settings_file(tapis: FakeTapis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file that says which Tapis and which system, and not who asks."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "presage.toml"
    file.write_text(f'[tapis]\nbase_url = "{tapis.base_url}"\nsystem = "{FakeTapis.system}"\n')
    return file


def add_settings(file: Path, *lines: str) -> None:
    file.write_text(file.read_text() + "".join(f"{line}\n" for line in lines))


def test_settings_come_from_a_file_and_the_environment_wins(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_settings(
        settings_file,
        f'username = "{FakeTapis.username}"',
        f'password = "{FakeTapis.password}"',
        'app_id = "trainer"',
        'image = "docker://example.org/trainer:1"',
        'runtime = "DOCKER"',
        'container_arguments = ["--gpus all"]',
    )
    monkeypatch.setenv("PRESAGE_TAPIS_IMAGE", "docker://example.org/trainer:2")
    connector = TapisConnector()
    assert connector.find("a") is None
    assert connector.application == Application(
        "trainer",
        "1",
        "docker://example.org/trainer:2",
        Runtime.DOCKER,
        container_arguments=("--gpus all",),
    )


def test_a_token_in_a_file_is_read_again_when_it_ends(tapis: FakeTapis, settings_file: Path) -> None:
    def token(lifetime_s: float) -> str:
        return tapis.services.signer.sign({"tapis/username": FakeTapis.username}, lifetime_s) + "\n"

    add_settings(settings_file, 'token_file = "token"')
    connector = TapisConnector()
    with pytest.raises(ClusterUnreachableError, match=r"'token': No such file.*Write one there"):
        connector.find("a")
    file = settings_file.with_name("token")
    file.write_text(token(30))  # which is too little to be used twice
    assert connector.find("a") is None
    file.write_text(token(1000))
    assert connector.find("a") is None
    file.unlink()
    assert connector.find("a") is None


def test_a_plane_may_have_the_tapis_of_the_settings(settings_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'token'.*PRESAGE_TAPIS_TOKEN.*\[tapis\]"):
        Clusters(tapis=True).connect(tmp_path)
    assert "tapis" not in Clusters().connect(tmp_path)
    add_settings(settings_file, f'username = "{FakeTapis.username}"', f'password = "{FakeTapis.password}"')
    connectors = Clusters(tapis=True).connect(tmp_path)
    assert set(connectors) == {"local", "simulated", "tapis"}
    assert connectors["tapis"].find("a") is None
    add_settings(settings_file, 'runtime = "PODMAN"')
    with pytest.raises(ConfigError, match=r"tapis\.runtime.*presage\.toml"):
        Clusters(tapis=True).connect(tmp_path)


@pytest.mark.parametrize(("peak", "code"), [(1000, 0), (None, 3)])
def test_an_estimator_answers_as_an_application_of_tapis(tapis: FakeTapis, peak: int | None, code: int) -> None:
    """With a program that is in the repository as an image, whose contract is standard input and output."""
    program = [sys.executable, "-I", str(ESTIMATOR)]
    profile = None if peak is None else {"peak_bytes": peak, "reserved_bytes": peak, "parts": {}}
    request = {
        "api": 1,
        "quantity": "memory",
        "workload": {"kind": "training"},
        "target": None,
        "profile": profile,
    }
    document = json.dumps(request).encode()
    expected = subprocess.run(program, input=document, capture_output=True)
    connector = connect(tapis.base_url)
    result = run_program(connector, f"estimate-{code}", program, document, timeout_s=30)
    assert (result.exit_code, result.output) == (expected.returncode, expected.stdout) == (code, expected.stdout)
    assert json.loads(result.output)["api"] == 1
    before = tapis.calls.count("jobs.submitJob")
    assert run_program(connector, f"estimate-{code}", program, document, timeout_s=30) == result
    assert tapis.calls.count("jobs.submitJob") == before


def test_a_program_without_an_answer_is_an_error(tapis: FakeTapis) -> None:
    connector = connect(tapis.base_url)
    with pytest.raises(ClusterTimeoutError, match="is cancelled"):
        run_program(connector, "slow", ["sleep", "1000"], b"", walltime_s=36_000, timeout_s=0.5)
    with pytest.raises(ClusterRefusedError, match="No such file"):
        run_program(connector, "absent", ["/no/such/program"], b"", timeout_s=30)


def test_a_plane_hears_what_a_job_tells_tapis(tapis: FakeTapis, tmp_path: Path) -> None:
    """A job that writes nothing into its folder; what is read twice is heard once."""
    store = Store(Database(f"sqlite:///{tmp_path / 'plane.sqlite'}"))
    connector = connect(tapis.base_url)
    pace = Pace(least_pause_s=0, most_pause_s=0, visit_s=0)
    place = Place("tapis", walltime_s=36_000)
    job = store.add("ann", Order("teller", "#!/bin/sh\nsleep 1000\n", (place,), run_folder=str(tmp_path / "run")))

    def told(until: Callable[[ManagedJob], bool]) -> list[str]:
        plane = Plane(store, {"tapis": connector}, pace=pace)  # a new one each time, which remembers nothing
        deadline_s = time.monotonic() + 30
        while not until(store.get(job.job_id)) and time.monotonic() < deadline_s:
            plane.step()
        assert until(store.get(job.job_id))
        plane.step()
        return [each.kind for each in store.events(job_id=job.job_id) if each.kind in KINDS]

    told(lambda job: any(each.status and each.status.state is Outcome.RUNNING for each in job.sub_jobs))
    there = store.get(job.job_id).sub_jobs[0].cluster_job_id
    assert there is not None
    connector.tell(there, {"done": 3, "total": 50, "unit": "epochs"})
    connector.tell(there, {"loss": 0.5}, "performance")
    for nothing in ({"done": float("nan")}, {}):
        connector.tell(there, nothing)
    connector.tell(there, {"done": 1}, "weather")
    assert told(lambda job: bool(job.progress and job.progress.metrics)) == ["performance", "progress"]
    connector.tell(there, {"done": 6, "total": 50})
    assert told(lambda job: bool(job.progress and job.progress.done == 6)) == [
        "performance",
        "progress",
        "progress",
    ]
    heard = store.get(job.job_id).progress
    assert heard is not None
    assert (heard.total, heard.metrics) == (50, {"loss": 0.5})
    connector.cancel([there])


CASCADE = f"""#!/bin/sh
trap 'exit {EXIT_TO_BE_CONTINUED}' USR1
cd "$PRESAGE_RUN_FOLDER" || exit 1
touch steps
while [ "$(wc -l < steps)" -lt 12 ]; do sleep 0.1; echo "$PRESAGE_SUB_JOB" >> steps; done
"""


def test_a_plane_brings_a_job_to_its_end_over_several_jobs_of_tapis(tapis: FakeTapis, tmp_path: Path) -> None:
    """Each job of Tapis is told to stop before its limit, and the next one goes on; the last one completes."""

    def now() -> datetime:
        return datetime.fromisoformat(tapis.machine.now())

    store = Store(Database(f"sqlite:///{tmp_path / 'plane.sqlite'}"), now)
    plane = Plane(store, {"tapis": connect(tapis.base_url)}, pace=Pace(most_pause_s=10), now=now)
    place = Place("tapis", walltime_s=60, limit_s=60, partition="normal")
    order = Order("cascade", CASCADE, (place,), run_folder=str(tmp_path / "run"), signal_before_s=30)
    job = store.add("ann", order)
    deadline_s = time.monotonic() + 60
    while job.phase not in FINAL and time.monotonic() < deadline_s:
        plane.step()
        time.sleep(0.05)
        job = store.get(job.job_id)
    endings = [sub_job.ending for sub_job in job.sub_jobs]
    assert endings[-1] is Ending.COMPLETED, endings
    # On a machine that is very busy a job may meet its limit before it hears of it.
    assert set(endings[:-1]) - {Ending.TIMEOUT} == {Ending.CONTINUED}, endings
    steps = (tmp_path / "run" / "steps").read_text().split()
    assert steps == sorted(steps, key=int)
    assert len(steps) == 12
