"""Callers who mean harm: in what they hand over, and in how they call."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from presage.connectors.local import LocalConnector
from presage.database import Database
from presage.orchestrator.plane import Plane
from presage.service.app import API, create_app
from presage.service.guards import RateLimit, Rates
from presage.service.patience import ImpatientProtocol, server_settings
from tests.service.conftest import Service

EVIL = [
    "'; touch {mark}; '",
    '"; touch {mark}; "',
    "$(touch {mark})",
    "`touch {mark}`",
    "a\nb; touch {mark}",
    "x && touch {mark} #",
    "${{IFS}}\ttouch {mark}|tee\u2028é*?[a]~ \\",
    "1" * 100_000,
]
SCRIPT = """#!/bin/sh
printf '%s' "$EVIL" > value
printf '%s\\0' "$@" > arguments
"""


def order(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "evil",
        "script": SCRIPT,
        "places": [{"cluster": "sim", "walltime_s": 60}],
        "working_directory": str(folder),
        **changes,
    }


def test_evil_values_reach_the_job_intact_or_are_refused_and_no_shell_sees_them(
    service: Service, tmp_path: Path
) -> None:
    mark = tmp_path / "touched"
    values = [text.format(mark=mark) for text in EVIL]
    taken: list[tuple[Path, str]] = []
    for number, value in enumerate(values):
        folder = tmp_path / f"{number} ;touch '{mark.name}' $(id)"
        folder.mkdir()
        changes = {"environment": {"EVIL": value}, "arguments": [value, "", "-rf"]}
        for name in (value[:200], "evil"):
            made = service.client.post(
                f"{API}/jobs", json=order(folder, name=name, **changes), headers=service.headers("ann")
            )
            assert made.status_code in (201, 422), made.text
            if made.status_code == 201:
                taken.append((folder, value))
                break
    assert len(taken) == len(values)
    _run_all(service, tmp_path)
    for folder, value in taken:
        assert (folder / "value").read_bytes() == value.encode()
        assert (folder / "arguments").read_bytes().split(b"\0")[:3] == [value.encode(), b"", b"-rf"]
    assert not mark.exists()
    assert not [path for path in tmp_path.rglob("*") if path.name == mark.name]


def _run_all(service: Service, tmp_path: Path) -> None:
    plane = Plane(service.state.store, {"sim": LocalConnector(tmp_path / "queue", cores=2)}, name="test")
    stop = threading.Event()
    thread = threading.Thread(target=plane.run, args=(stop,), daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while service.state.store.jobs(active_only=True) and time.monotonic() < deadline:
        time.sleep(0.1)
    stop.set()
    thread.join(30)
    phases = {job.phase.value for job in service.state.store.jobs()}
    assert phases == {"completed"}, [job.reason for job in service.state.store.jobs()]


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"X": "a\0b"}},
        {"environment": {"X=Y": "1"}},
        {"environment": {"a;b": "1"}},
        {"environment": {"X": "1" * 2_000_000}},
        {"name": "a\0b"},
        {"name": "n" * 1_000_000},
        {"arguments": ["\0"]},
        {"working_directory": "/tmp/\0"},
        {"working_directory": "relative"},
        {"run_folder": "../../etc"},
        {"script": "#!/bin/sh\n\0"},
        {"places": [{"cluster": "nowhere"}]},
        {"places": [{"cluster": "sim", "partition": "--wrap=id"}]},
        {"account": "a\nb"},
        {"qos": "\ud800"},
    ],
    ids=str,
)
def test_what_no_cluster_should_get_is_refused(service: Service, tmp_path: Path, changes: dict[str, Any]) -> None:
    import json

    # As text, because half a character cannot be sent otherwise.
    body = json.dumps(order(tmp_path, **changes))
    answer = service.client.post(f"{API}/jobs", content=body, headers=service.headers("ann"))
    assert answer.status_code == 422, answer.text
    assert len(answer.text) < 5000
    assert service.state.store.jobs() == []


def test_the_service_builds_no_networks_for_callers(service: Service, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef build(): ...\n")
    workload = {"kind": "training", "model": f"{tmp_path / 'train.py'}:build", "inputs": [[3]]}
    for quantity in ("memory", "walltime", "cost"):
        request = {"api": 1, "quantity": quantity, "workload": workload}
        answer = service.client.post(f"{API}/estimates", json=request, headers=service.headers("ann"))
        assert answer.status_code == 422
        assert "profile" in answer.json()["error"]["problem"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"1" * 50_000, b"\xff", b""])
def test_bodies_that_are_hard_to_read_are_refused(service: Service, body: bytes) -> None:
    for path in ("/jobs", "/estimates", "/plans", "/schedule", "/forecasts"):
        answer = service.client.post(
            f"{API}{path}", content=body, headers={**service.headers("ann"), "Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422), path
        assert answer.json()["error"]["problem"]


def test_strangers_cannot_get_more_calls_by_new_tokens_nor_take_those_of_others() -> None:
    now = [0.0]

    def limit() -> RateLimit:
        return RateLimit(per_s=1, burst=2, clock=lambda: now[0])

    rates = Rates(limit(), limit())
    assert [rates.allows(f"token {number}", "1.2.3.4") for number in range(4)] == [True, True, False, False]
    assert not rates.allows("ann's", "1.2.3.4")
    rates.note("ann's", valid=True)
    assert [rates.allows("ann's", "1.2.3.4") for _ in range(3)] == [True, True, False]
    rates.note("ann's", valid=False)  # taken back
    now[0] = 0.5
    assert not rates.allows("ann's", "1.2.3.4")


def test_secrets_are_in_no_log_and_no_error(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = service.secrets["ann"]
    texts = []
    for path in ("/jobs", "/tokens", "/nothing", "/jobs/x", f"/jobs/{secret}"):
        for method in ("GET", "POST", "DELETE"):
            answer = service.client.request(method, API + path, headers=service.headers("ann"), json={"x": 1})
            if secret not in path:
                texts.append(answer.text)
    service.client.get(f"{API}/jobs", headers={"Authorization": f"Bearer {secret}x"})
    texts.append(str([each for each in service.state.tokens.recorded() if "/jobs/presage_" not in each["call"]]))
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("presage")]
    assert secret.split("_", 2)[2] not in "\n".join([*texts, *ours])


def test_trouble_of_the_service_is_logged_and_not_told(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from presage.errors import ConfigError
    from presage.orchestrator.store import Store

    def no_database(*_: Any, **__: Any) -> None:
        raise ConfigError("The database 'sqlite:////home/plane/secret-place.sqlite' cannot be read")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret-place")

    for failure, status in ((no_database, 503), (broken, 500)):
        monkeypatch.setattr(Store, "jobs", failure)
        answer = service.client.get(f"{API}/jobs", headers=service.headers("ann"))
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"code", "problem"}
        assert "secret-place" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret-place" in caplog.text


def test_other_sites_may_not_call(service: Service) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "GET"):
        answer = service.client.request(method, f"{API}/jobs", headers={**asked, **service.headers("ann")})
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.fixture
def address(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A real server that is less patient than usual."""
    monkeypatch.setattr(ImpatientProtocol, "headers_timeout_s", 0.5)
    monkeypatch.setattr("presage.service.guards.Guards.__init__.__defaults__", (1000, 0.5))
    app = create_app(service.state, Rates())
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_settings(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def ask(address: tuple[str, int], *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send parts with pauses between them and return all that comes back until the server closes, or for 5 s."""
    with socket.create_connection(address, timeout=5) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_s)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        return answer


def test_slow_clients_are_cut_off(service: Service, address: tuple[str, int]) -> None:
    head = f"POST {API}/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.secrets['ann']}\r\n".encode()
    assert ask(address, head) == b""  # the head never ends
    slow = ask(address, head + b"Content-Length: 100\r\n\r\n{")
    assert slow.startswith(b"HTTP/1.1 408")
    assert b'"too_slow"' in slow


def test_a_declared_length_is_not_believed(service: Service, address: tuple[str, int]) -> None:
    head = f"POST {API}/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.secrets['ann']}\r\n".encode()
    both = head + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer = ask(address, both + b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n")
    assert answer.split()[1] in (b"413", b"400")
    assert service.state.store.jobs() == []


def test_a_token_that_is_taken_back_stops_hearing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from presage.service.routers import jobs

    monkeypatch.setattr(jobs, "_CHECK_S", 0.0)
    caller = service.state.tokens.check(service.secrets["ann"])
    assert caller is not None
    service.state.tokens.revoke(caller.token_id)

    class Listening:
        async def is_disconnected(self) -> bool:
            return False

    async def all_of_it() -> list[str]:
        stream = jobs._events(caller, service.state, Listening(), 0)  # type: ignore[arg-type]  # enough of a request
        return [text async for text in stream]

    assert asyncio.run(all_of_it()) == []
    service.state.streams.check("ann")


def test_the_database_is_its_owner_s_alone(tmp_path: Path) -> None:
    from presage.service.tokens import Tokens

    Tokens(Database(f"sqlite:///{tmp_path / 'new' / 'presage.sqlite'}")).create("ann")
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
