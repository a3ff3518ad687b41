from __future__ import annotations

import contextlib
import json
import random
import string
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.connectors import Submission
from presage.connectors.tapis import Application, Runtime, client, connector
from presage.connectors.tapis.client import TapisClient
from presage.connectors.tapis.connector import TapisConnector
from presage.connectors.tapis.discovery import make_system
from presage.connectors.tapis.events import KIND, HistoryEvent, message_in
from presage.connectors.tapis.jobs import parse_job, parse_result, statuses
from presage.connectors.tapis.payload import MAX_CHARS, unpack
from presage.connectors.tapis.requests import job_name, job_request
from presage.connectors.tapis.tokens import Tokens, expiry_s
from presage.errors import (
    ClusterRefusedError,
    ClusterTimeoutError,
    ClusterUnreachableError,
    ConnectorError,
    UsageError,
)
from presage.traces.schema import Outcome

JOB = "ba34f946-8a18-44c4-9b25-19e21dfadf69-007"
GIB = 2**30
IMAGE = Application(image="docker://example.org/training")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
Behaviour = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(connector, "_POLL_S", 0.01)


class Scripted:
    """A server that behaves in turn as it is told, the last time for ever."""

    def __init__(self, *behaviours: Behaviour | httpx.Response | Exception) -> None:
        self.behaviours = list(behaviours)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        behaviour = self.behaviours[0] if len(self.behaviours) == 1 else self.behaviours.pop(0)
        if isinstance(behaviour, Exception):
            raise behaviour
        return behaviour if isinstance(behaviour, httpx.Response) else behaviour(request)

    def client(self, **more: Any) -> TapisClient:
        settings = {"token": "a.b.c", "transport": httpx.MockTransport(self), **more}
        return TapisClient("https://tapis.example.org/", **settings)


def says(result: object, status: int = 200, message: str = "told") -> httpx.Response:
    return httpx.Response(status, json={"status": "x", "message": message, "version": "1", "result": result})


def test_a_request_has_its_token_and_its_path_quoted() -> None:
    server = Scripted(says([1]))
    assert server.client().ask("GET", "jobs", "../a?b#c", query={"limit": 3}).result == [1]
    (request,) = server.requests
    assert str(request.url) == "https://tapis.example.org/v3/jobs/..%2Fa%3Fb%23c?limit=3"
    assert request.headers["X-Tapis-Token"] == "a.b.c"


BROKEN = [
    (httpx.ConnectError("refused"), ClusterUnreachableError),
    (httpx.ReadTimeout("late"), ClusterTimeoutError),
    (httpx.RemoteProtocolError("cut off"), ClusterUnreachableError),
    (httpx.Response(503, text="busy"), ClusterUnreachableError),
    (httpx.Response(429, text="slowly"), ClusterUnreachableError),
]


@pytest.mark.parametrize(("trouble", "kind"), BROKEN, ids=lambda value: type(value).__name__)
def test_what_changes_nothing_is_asked_again(trouble: Any, kind: type[ConnectorError]) -> None:
    assert Scripted(trouble, trouble, says("at last")).client().ask("GET", "jobs").result == "at last"
    server = Scripted(trouble)
    with pytest.raises(kind):
        server.client().ask("GET", "jobs")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "attempts"),
    [(BROKEN[0][0], 3), (BROKEN[1][0], 1), (BROKEN[2][0], 1), (BROKEN[3][0], 1), (BROKEN[4][0], 3)],
)
def test_a_job_is_handed_over_again_only_if_it_cannot_have_arrived(trouble: Any, attempts: int) -> None:
    server = Scripted(trouble)
    with pytest.raises(ConnectorError):
        server.client().ask("POST", "jobs", "submit", body={}, is_repeatable=False)
    assert len(server.requests) == attempts


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (says(None, 400, "JOBS_INVALID\x1b[31m no such queue"), ClusterRefusedError, "no such queue"),
        (says(None, 403), ClusterRefusedError, "403"),
        (says(None, 500, "ouch"), ClusterUnreachableError, "ouch"),
        (httpx.Response(404, text="<html>nothing</html>"), ClusterRefusedError, "nothing"),
        (httpx.Response(200, text="<html>log in first</html>"), ClusterUnreachableError, "log in first"),
        (httpx.Response(200, json=[1]), ClusterUnreachableError, "not Tapis's"),
        (httpx.Response(200, content=b"[" * 100_000), ClusterUnreachableError, "not Tapis's"),
        (httpx.Response(302, headers={"location": "https://elsewhere.example.org"}, json={}), None, ""),
    ],
)
def test_refusals_are_in_the_words_of_tapis(
    answer: httpx.Response, kind: type[ConnectorError] | None, words: str
) -> None:
    server = Scripted(answer)
    if kind is None:  # a redirection is not followed: the token stays here
        server.client().ask("GET", "jobs")
        assert len(server.requests) == 1
        return
    with pytest.raises(kind) as refusal:
        server.client().ask("GET", "jobs")
    assert words in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert "a.b.c" not in str(refusal.value)


def test_an_answer_that_never_ends_is_given_up() -> None:
    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            while True:
                time.sleep(0.02)
                yield b" "

    begin_s = time.monotonic()
    with pytest.raises(ClusterTimeoutError):
        Scripted(lambda request: httpx.Response(200, stream=Endless())).client(timeout_s=0.2).ask("GET", "jobs")
    assert time.monotonic() - begin_s < 20


@pytest.mark.parametrize(
    "address",
    ["", "tapis", "ftp://a.org", "http://tapis.example.org", "https://u:p@a.org", "https://[::1", "https://a:b"],
)
def test_addresses_to_which_no_token_goes_are_refused(address: str) -> None:
    with pytest.raises(UsageError):
        TapisClient(address, token="a.b.c")


@pytest.mark.parametrize("token", ["", " ", "a\nb", "ü"])
def test_what_cannot_be_a_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="not one"):
        Tokens(token, None).current()


@given(st.text())
def test_any_text_may_be_asked_for_its_end(text: str) -> None:
    assert expiry_s(text) is None


def job(**more: Any) -> dict[str, Any]:
    return {"uuid": JOB, "status": "FAILED", "remoteStarted": "2026-07-12T23:56:20.9Z", **more}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"status": "PENDING", "remoteStarted": None}, Outcome.PENDING),
        ({"status": "QUEUED", "remoteStarted": None}, Outcome.PENDING),
        ({"status": "BLOCKED", "remoteStarted": None}, Outcome.PENDING),
        ({"status": "RUNNING"}, Outcome.RUNNING),
        ({"status": "ARCHIVING"}, Outcome.RUNNING),
        ({"status": "PAUSED"}, Outcome.RUNNING),
        ({"status": "A_NEW_ONE"}, Outcome.RUNNING),
        ({"status": "FINISHED", "remoteResultInfo": "0"}, Outcome.COMPLETED),
        ({"status": "FINISHED", "remoteResultInfo": None}, Outcome.COMPLETED),
        ({"status": "FINISHED", "remoteResultInfo": "1:0"}, Outcome.FAILED),
        ({"status": "CANCELLED", "condition": "CANCELLED_BY_USER"}, Outcome.CANCELLED),
        ({"condition": "SCHEDULER_TIMEOUT"}, Outcome.TIMEOUT),
        ({"condition": "SCHEDULER_DEADLINE"}, Outcome.TIMEOUT),
        ({"condition": "JOB_EXECUTION_MONITORING_TIMEOUT"}, Outcome.TIMEOUT),
        ({"condition": "SCHEDULER_OUT_OF_MEMORY"}, Outcome.OUT_OF_MEMORY),
        ({"condition": "SCHEDULER_CANCELLED"}, Outcome.CANCELLED),
        ({"condition": "SCHEDULER_TERMINATED"}, Outcome.FAILED),
        ({"condition": "SCHEDULER_TERMINATED", "lastMessage": "12 PREEMPTED 0:15"}, Outcome.PREEMPTED),
        ({"condition": "SCHEDULER_TERMINATED", "lastMessage": "12 NF 0"}, Outcome.NODE_FAILURE),
        ({"condition": "JOB_ARCHIVING_FAILED", "lastMessage": "NODE_FAIL"}, Outcome.FAILED),
        ({"condition": None}, Outcome.FAILED),
    ],
)
def test_how_a_job_stands_and_how_it_ended(facts: dict[str, Any], expected: Outcome) -> None:
    assert parse_job(job(**facts)).state is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (0, None)),
        ("7", (7, None)),
        ("7:0", (7, None)),
        ("0:9", (0, 9)),
        ("137", (137, 9)),
        ("255", (255, None)),
        ("256", (1, None)),
        ("0:0", (0, None)),
        (None, (None, None)),
        ("unknown", (None, None)),
    ],
)
def test_exit_codes_and_signals(text: str | None, expected: tuple[int | None, int | None]) -> None:
    assert parse_result(text) == expected


def test_a_job_of_tapis_becomes_ours() -> None:
    status = parse_job(
        {
            "uuid": JOB,
            "status": "FINISHED",
            "condition": "NORMAL_COMPLETION",
            "created": "2026-07-12T23:56:01.790165Z",
            "remoteStarted": "2026-07-12T23:56:20",
            "remoteEnded": "2026-07-12T23:56:42.411522Z",
            "ended": "2026-07-12T23:59:00Z",
            "nodeCount": 2,
            "execSystemLogicalQueue": "normal",
            "maxMinutes": 240,
            "memoryMB": 1024,
            "remoteResultInfo": "0",
            "tags": ["sleep", "presage:key=run-17"],
        }
    )
    assert (status.key, status.nodes, status.partition) == ("run-17", 2, "normal")
    assert (status.walltime_s, status.memory_bytes, status.exit_code) == (14_400.0, GIB, 0)
    assert status.start_time == datetime(2026, 7, 12, 23, 56, 20, tzinfo=UTC)
    assert status.end_time == datetime(2026, 7, 12, 23, 56, 42, 411_522, tzinfo=UTC)  # not when all was copied


@given(
    result=JSON
    | st.lists(st.fixed_dictionaries({"uuid": st.just(JOB), "status": JSON, "tags": JSON, "created": JSON}))
)
def test_no_answer_of_a_server_is_a_traceback(result: Any) -> None:
    text = json.dumps({"result": result})
    server = Scripted(lambda request: httpx.Response(200, text=text))
    assert set(statuses(server.client(), [JOB])) <= {JOB}


@given(JSON | st.fixed_dictionaries({"canExec": st.just(True), "batchLogicalQueues": JSON}))
def test_no_description_of_a_system_is_a_traceback(document: Any) -> None:
    with contextlib.suppress(ClusterRefusedError):
        make_system(document, "https://tapis.example.org")


def test_a_queue_without_sizes_is_listed_and_not_enabled() -> None:
    queues = [
        {"name": "sized", "maxCoresPerNode": 48, "maxMemoryMB": 2048, "maxNodeCount": 2**31 - 1, "maxMinutes": -1},
        {"name": "unsized", "maxNodeCount": 8},
    ]
    system = make_system(
        {"id": "s", "canExec": True, "batchLogicalQueues": queues}, "https://t.example.org", "mine"
    )
    sized, unsized = system.partitions
    assert (system.name, sized.enabled, unsized.enabled) == ("mine", True, False)
    assert (sized.limits.max_nodes, sized.limits.max_walltime_s) == (None, None)
    assert system.node_type(sized.node_types[0]).cores == 48
    assert unsized.limits.max_nodes == 8


def test_node_types_of_nearly_the_same_size_are_kept_apart() -> None:
    queues = [{"name": f"q{mib}", "maxCoresPerNode": 4, "maxMemoryMB": mib} for mib in (2048, 2050, 2048)]
    system = make_system({"id": "s", "canExec": True, "batchLogicalQueues": queues}, "https://t.example.org")
    sizes = [system.node_type(partition.node_types[0]).memory_bytes // 2**20 for partition in system.partitions]
    assert sizes == [2048, 2050, 2048]
    assert [node_type.count for node_type in system.node_types] == [None, None]


WHEN = datetime(2026, 7, 12, 23, 56, 42, 411_522, tzinfo=UTC)


def test_a_user_event_is_a_message_with_a_number_that_stays() -> None:
    first = message_in(HistoryEvent(WHEN, KIND, "progress", '{"done": 3, "total": 50, "kind": "other"}'))
    assert first == {"done": 3, "total": 50, "kind": "progress", "time": WHEN.isoformat(), "sequence": ANY}
    later = message_in(HistoryEvent(WHEN + timedelta(microseconds=1), KIND, "performance", '{"loss": 0.5}'))
    assert later is not None
    assert later["metrics"] == {"loss": 0.5}
    milliseconds = int(WHEN.timestamp() * 1000)
    assert milliseconds << 11 < first["sequence"] < later["sequence"] < (milliseconds + 1) << 11
    numbered = message_in(HistoryEvent(WHEN, KIND, "utilization", '{"cpu": 0.5, "sequence": 7}'))
    assert numbered is not None
    assert numbered["sequence"] == 7


@pytest.mark.parametrize(
    "event",
    [
        HistoryEvent(WHEN, "JOB_NEW_STATUS", "progress", "{}"),
        HistoryEvent(WHEN, KIND, "finished", "{}"),
        HistoryEvent(None, KIND, "progress", "{}"),
        HistoryEvent(WHEN, KIND, "progress", "[1, 2]"),
        HistoryEvent(WHEN, KIND, "progress", '{"done": NaN}'),
        HistoryEvent(WHEN, KIND, "progress", "half of it"),
        HistoryEvent(WHEN, KIND, "progress", "[" * 16_000),
        HistoryEvent(WHEN, KIND, "progress", '{"done": ' + "9" * 10_000 + "}"),
    ],
)
def test_other_events_are_no_messages(event: HistoryEvent) -> None:
    assert message_in(event) is None


def submission(**more: Any) -> Submission:
    return Submission(**{"key": "k", "name": "n", "script": "#!/bin/sh\n", **more})


def test_sizes_are_rounded_up_to_what_tapis_counts_in() -> None:
    asked = submission(nodes=2, cores_per_node=3, memory_bytes=GIB + 1, walltime_s=3601.0)
    request = job_request(asked, IMAGE, "here")
    sizes = [request[name] for name in ("nodeCount", "coresPerNode", "memoryMB", "maxMinutes")]
    assert sizes == [2, 3, 1025, 61]
    assert not {"nodeCount", "maxMinutes", "execSystemLogicalQueue"} & set(
        job_request(submission(), IMAGE, "here")
    )


@pytest.mark.parametrize(
    ("more", "runtime", "options", "container"),
    [
        ({"account": "a-1", "qos": "q"}, Runtime.SINGULARITY, ["--account a-1", "--qos q"], []),
        ({"gpus_per_node": 2}, Runtime.SINGULARITY, ["--gpus-per-node 2"], ["--nv"]),
        ({"gpus_per_node": 2, "gpu_type": "a100"}, Runtime.DOCKER, ["--gpus-per-node a100:2"], ["--gpus all"]),
        ({"requeue": True, "options": ("-C ib",)}, Runtime.DOCKER, ["--requeue", "-C ib"], []),
        ({"requeue": False, "tasks_per_node": 4}, Runtime.DOCKER, ["--ntasks-per-node 4", "--no-requeue"], []),
    ],
)
def test_options_reach_the_scheduler(
    more: dict[str, Any], runtime: Runtime, options: list[str], container: list[str]
) -> None:
    request = job_request(submission(**more), Application(image="i", runtime=runtime), "here")
    parameters = request["parameterSet"]
    assert [argument["arg"] for argument in parameters["schedulerOptions"]] == options
    assert [argument["arg"] for argument in parameters["containerArgs"]] == container


def test_jobs_wait_for_the_numbers_of_the_scheduler() -> None:
    request = job_request(
        submission(only_after_success=True), IMAGE, "here", dependencies=["17", "18"], profile="tacc"
    )
    options = [argument["arg"] for argument in request["parameterSet"]["schedulerOptions"]]
    assert options == ["--tapis-profile tacc", "--dependency afterok:17:18", "--kill-on-invalid-dep yes"]


@given(name=st.text(min_size=1, max_size=256).filter(lambda text: text.strip() and "\0" not in text))
def test_no_name_means_anything_to_a_shell(name: str) -> None:
    assert 1 <= len(job_name(name)) <= 64
    assert not set(job_name(name)) & set(" \t\n$`\"'\\;&|<>(){}*?[]!#~%^")


@pytest.mark.parametrize(
    "more",
    [
        {"partition": "a b"},
        {"account": "x\n#SBATCH --uid=0"},
        {"qos": "$(id)"},
        {"gpus_per_node": 1, "gpu_type": "a;b"},
        {"options": ("--wrap=$(id)",)},
        {"options": ("--comment=a\nb",)},
        {"nodes": 2**40},
    ],
)
def test_what_tapis_would_understand_otherwise_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        job_request(submission(**more), IMAGE, "here")


def test_what_is_too_long_for_a_variable_is_refused() -> None:
    generator = random.Random(1)
    texts = {f"V{number}": "".join(generator.choices(string.printable, k=90_000)) for number in range(3)}
    with pytest.raises(UsageError, match="container image"):
        job_request(submission(environment=texts), IMAGE, "here")
    packed = job_request(submission(script="#!/bin/sh\n" + "# much of the same\n" * 50_000), IMAGE, "here")
    (variable,) = packed["parameterSet"]["envVariables"]
    assert len(variable["value"]) < MAX_CHARS
    assert unpack(variable["value"])["script"].count("same") == 50_000


@given(st.text())
def test_only_what_was_packed_is_unpacked(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(text)


def test_jobs_that_never_reach_the_scheduler_are_not_waited_for_for_ever() -> None:
    server = Scripted(says([job(status="PENDING", remoteStarted=None, remoteJobId=None)]))
    transport = httpx.MockTransport(server)
    connected = TapisConnector(
        "https://tapis.example.org", system="s", token="a.b.c", timeout_s=0.1, transport=transport
    )
    with pytest.raises(ClusterTimeoutError, match="have not reached"):
        connected.submit(submission(depends_on=(JOB,)))


def test_a_cancellation_that_tapis_refuses_is_said() -> None:
    server = Scripted(says(None, 400, "not now"), says([job(status="RUNNING")]))
    transport = httpx.MockTransport(server)
    connected = TapisConnector("https://tapis.example.org", system="s", token="a.b.c", transport=transport)
    with pytest.raises(ClusterRefusedError, match="not now"):
        connected.cancel([JOB])


def test_what_runs_inside_a_container_needs_nothing_but_python() -> None:
    code = "import sys, presage.connectors.tapis.inside; print({'polars', 'numpy', 'httpx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
