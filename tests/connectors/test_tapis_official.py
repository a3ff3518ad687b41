"""The fake against what Tapis publishes: its OpenAPI files, and its own client, in an environment of their own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from presage.connectors import Submission
from presage.connectors.tapis import Application, TapisConnector
from presage.connectors.tapis.programs import run_program
from presage.testing.tapis import FakeTapis, Specification
from presage.testing.tapis.services import ROUTES
from presage.testing.tapis.specification import SERVICES

TAPIPY = "tapipy==25.4.0"
INSTALL_TIMEOUT_S = 85
RUN_TIMEOUT_S = 60
pytestmark = pytest.mark.slow

EXTRACT = """
import json, pathlib, sys, tapipy, yaml
folder = pathlib.Path(tapipy.__file__).parent / "resources"
read = lambda service: yaml.safe_load((folder / f"openapi_v3-{service}.yml").read_text())
print(json.dumps({service: read(service) for service in sys.argv[1:]}, default=str))
"""

USE = """
import json, sys, time
from tapipy.errors import BadRequestError, NotFoundError, UnauthorizedError
from tapipy.tapis import Tapis

base_url, username, password, system = sys.argv[1:]
told = {}

def refused(kind, operation, **arguments):
    try:
        operation(**arguments)
    except kind as error:
        return str(error.message)[:20]
    return None

client = Tapis(base_url=base_url, username=username, password=password)
client.get_tokens()
told["tenant"] = client.tenant_id
told["lifetime_s"] = client.access_token.expires_in().total_seconds()
told["systems"] = [each.id for each in client.systems.getSystems()]
told["queues"] = [queue.name for queue in client.systems.getSystem(systemId=system).batchLogicalQueues]
image = "docker://example.org/shell"
client.apps.createAppVersion(id="shell", version="1", containerImage=image, runtime="SINGULARITY")
told["image"] = client.apps.getApp(appId="shell", appVersion="1").containerImage

def submit(command, **more):
    arguments = {"appArgs": [{"arg": command}]}
    return client.jobs.submitJob(
        name="peer", appId="shell", appVersion="1", execSystemId=system, parameterSet=arguments, **more
    ).uuid

def wait(job, wanted):
    end = time.monotonic() + 20
    while (status := client.jobs.getJobStatus(jobUuid=job).status) not in wanted and time.monotonic() < end:
        time.sleep(0.05)
    return status

final = ("FINISHED", "FAILED", "CANCELLED")
good, bad, late = submit("true", tags=["of-the-peer"]), submit("false"), submit("sleep 1000", maxMinutes=1)
told["ends"] = [wait(job, final) for job in (good, bad, late)]
told["conditions"] = [client.jobs.getJob(jobUuid=job).condition for job in (good, bad, late)]
running = submit("sleep 1000")
wait(running, ("RUNNING",))
client.jobs.sendEvent(jobUuid=running, eventData="half", eventDetail="progress")
client.jobs.cancelJob(jobUuid=running)
told["cancelled"] = wait(running, final)
history = client.jobs.getJobHistory(jobUuid=running)
told["history"] = [[event.event, event.eventDetail] for event in history]
search = {"search": ["tags IN ('of-the-peer')"]}
found = client.jobs.getJobSearchListByPostSqlStr(request_body=search, select="uuid,status", limit=5)
told["found"] = [[job.uuid == good, job.status] for job in found]
told["listed"] = len(client.jobs.getJobList(limit=3))
told["unknown"] = refused(NotFoundError, client.jobs.getJob, jobUuid="nobody")
told["nowhere"] = refused(BadRequestError, client.jobs.submitJob, name="n", appId="shell", appVersion="1",
                          execSystemId=system, execSystemLogicalQueue="nowhere")
client.access_token.access_token += "x"
told["forged"] = refused(UnauthorizedError, client.jobs.getJobList)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment that has tapipy, which pins old packages; made once and kept.

    TAPIPY_VENV names one that is there already.
    """
    given = os.environ.get("TAPIPY_VENV")
    if given:
        return Path(given, "bin", "python")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "presage", "tests")
    folder = cache / f"{TAPIPY.replace('==', '-')}-{sys.version_info.major}.{sys.version_info.minor}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "complete").exists():
                _make_environment(folder)
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error)
        pytest.skip(f"{TAPIPY} cannot be installed here: {str(words).strip().splitlines()[-1][:200]}")
    return folder / "bin" / "python"


def _make_environment(folder: Path) -> None:
    end_s = time.monotonic() + INSTALL_TIMEOUT_S
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", TAPIPY]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(folder / "bin/python"), *install],
    ):
        left_s = max(1.0, end_s - time.monotonic())
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=left_s)
    (folder / "complete").touch()


def run(python: Path, code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [str(python), "-c", code, *arguments], capture_output=True, text=True, timeout=RUN_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def specification(python: Path) -> Specification:
    return Specification(run(python, EXTRACT, *SERVICES))


@pytest.fixture
def tapis(specification: Specification) -> Iterator[FakeTapis]:
    with FakeTapis(nodes=4, rate=60, specification=specification) as server:
        yield server


def test_the_routes_are_those_that_tapis_publishes(specification: Specification) -> None:
    assert {operation: specification.route(operation) for operation in ROUTES} == ROUTES


def test_the_client_of_tapis_itself_works_with_the_fake(python: Path, tapis: FakeTapis) -> None:
    told = run(python, USE, tapis.base_url, tapis.username, tapis.password, tapis.system)
    assert told.pop("lifetime_s") > 14_000
    assert [entry for entry in told.pop("history") if entry[1] not in ("QUEUED", "PENDING")] == [
        ["JOB_NEW_STATUS", "PROCESSING_INPUTS"],
        ["JOB_NEW_STATUS", "STAGING_INPUTS"],
        ["JOB_NEW_STATUS", "STAGING_JOB"],
        ["JOB_NEW_STATUS", "SUBMITTING_JOB"],
        ["JOB_NEW_STATUS", "RUNNING"],
        ["JOB_USER_EVENT", "progress"],
        ["JOB_NEW_STATUS", "CANCELLED"],
    ]
    assert told == {
        "tenant": "fake",
        "systems": ["fake-cluster"],
        "queues": ["normal", "development"],
        "image": "docker://example.org/shell",
        "ends": ["FINISHED", "FAILED", "FAILED"],
        "conditions": ["NORMAL_COMPLETION", "SCHEDULER_TERMINATED", "SCHEDULER_TIMEOUT"],
        "cancelled": "CANCELLED",
        "found": [[True, "FINISHED"]],
        "listed": 3,
        "unknown": "TAPIS_NOT_FOUND Ther",
        "nowhere": "JOBS_INVALID_QUEUE T",
        "forged": "TAPIS_SECURITY_JWT_I",
    }
    assert tapis.violations == []


def test_all_that_the_connector_asks_is_as_tapis_has_it(tapis: FakeTapis, tmp_path: Path) -> None:
    connector = TapisConnector(
        tapis.base_url,
        system=tapis.system,
        username=tapis.username,
        password=tapis.password,
        application=Application(image="docker://example.org/training", container_arguments=("--bind /scratch",)),
        profile="site",
    )
    first = Submission("first", "a $(name)", "#!/bin/sh\nsleep 1000\n", walltime_s=3600, signal="USR1")
    ids = [connector.submit(first)]
    everything = Submission(
        key="second",
        name="everything " * 10,
        script="#!/bin/sh\ntrue\n",
        arguments=("two words", "", "$(touch pwned)"),
        environment={"A": "'; touch pwned"},
        partition="development",
        account="course-17",
        qos="high",
        nodes=1,
        tasks_per_node=2,
        cores_per_node=4,
        gpus_per_node=1,
        gpu_type="a100",
        memory_bytes=2**30,
        walltime_s=1800,
        depends_on=(ids[0],),
        requeue=False,
        comment="why",
        options=("--reservation course", "--exclusive"),
    )
    ids.append(connector.submit(everything))
    connector.tell(ids[0], {"done": 1})
    assert set(connector.statuses(ids)) == set(ids)
    assert connector.find("second") == ids[1]
    assert len(connector.told(ids[0])) == 1
    assert connector.discover().partitions
    connector.cancel(ids)
    operations = set(ROUTES) - {name for name in ROUTES if name.startswith("tenants.")}
    unused = {"systems.getSystems", "jobs.getJobList", "jobs.getJob", "jobs.getJobStatus"}
    assert run_program(connector, "program", ["cat"], b"\0 any bytes").output == b"\0 any bytes"
    assert set(tapis.calls) == operations - unused
    assert tapis.violations == []


def test_what_is_not_as_published_is_seen(specification: Specification) -> None:
    def problems(**body: Any) -> list[str]:
        request = {"name": "n", "appId": "a", "appVersion": "1", **body}
        return specification.request_problems("jobs.submitJob", {}, request)

    assert problems(nodeCount=1, parameterSet={"appArgs": [{"arg": "x"}]}) == []
    assert problems(nodes=1) == ["body has 'nodes', which is not written down"]
    assert problems(nodeCount="1") == ["body.nodeCount is str where integer is expected"]
    assert problems(parameterSet={"appArgs": [{"argument": "x"}]}) == [
        "body.parameterSet.appArgs[0] has 'argument', which is not written down"
    ]
    assert specification.request_problems("jobs.submitJob", {"no": "1"}, {}) == [
        "there is no parameter 'no'",
        "body lacks 'appId'",
        "body lacks 'appVersion'",
        "body lacks 'name'",
    ]
    answer = {"result": {"status": "DONE", "condition": None}}
    (problem,) = specification.answer_problems("jobs.getJob", 200, answer)
    assert problem.startswith("answer.result.status is 'DONE', which is none of")
