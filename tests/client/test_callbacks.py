"""What a training tells over the network: once, in order, and never to its harm."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from presage.client import read_events, track
from presage.client.callbacks import CallbackSender, Patience, first_sequence, message_of, sender_of
from presage.client.events import EVENTS_FILE

FAST = Patience(timeout_s=2, least_pause_s=0, first_retry_s=0.02, most_retry_s=0.05, last_words_s=5)
SECRET = "s3cret"


@dataclass
class Hall:
    """A server that remembers what it is told, and answers what the test wants."""

    told: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    answers: list[int] = field(default_factory=list)
    """The first ones; 202 from then on."""
    may_answer: threading.Event = field(default_factory=threading.Event)
    address: str = ""

    def sender(self) -> CallbackSender:
        return CallbackSender(f"{self.address}/api/v1/jobs/j1/callbacks", SECRET, FAST)


@pytest.fixture
def hall() -> Iterator[Hall]:
    made = Hall()
    made.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.may_answer.wait(10)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.tokens.add(self.headers["Authorization"])
            status = made.answers.pop(0) if made.answers else 202
            if status == 202:
                made.told.append({"path": self.path, **body})
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{made.address}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    made.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield made
    made.may_answer.set()
    server.shutdown()
    server.server_close()


def event(kind: str, sequence: int, **values: Any) -> dict[str, Any]:
    return {"time": "2026-03-01T10:00:00.000+00:00", "kind": kind, "sub_job": 1, "sequence": sequence, **values}


def until(holds: Callable[[], bool], most_s: float = 5.0) -> None:
    deadline = time.monotonic() + most_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert holds()


class Nothing:
    """A state that is none."""

    def state_dict(self) -> Any:
        return {}

    def load_state_dict(self, state: Any) -> None:
        """Take it on."""


def test_a_training_tells_the_same_by_file_and_network(
    hall: Hall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"ADDRESS": hall.address + "/", "TOKEN": SECRET}
    for name, value in names.items():
        monkeypatch.setenv(f"PRESAGE_CALLBACK_{name}", value)
    monkeypatch.setenv("PRESAGE_JOB", "j0123456789a")
    monkeypatch.setenv("PRESAGE_SUB_JOB", "3")
    run = track(2, folder=tmp_path, model=Nothing())
    for epoch in run:
        run.report(loss=1 / (epoch + 1), broken=float("nan"), words="x" * 5000)
    sender = sender_of()
    assert sender is not None
    sender.close()
    events = [each for each, _ in read_events(tmp_path / EVENTS_FILE)]
    numbers = [each.values["sequence"] for each in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {each.values["sub_job"] for each in events} == {3}
    by_number = {each.values["sequence"]: each for each in events}
    assert {each["path"] for each in hall.told} == {"/api/v1/jobs/j0123456789a/callbacks"}
    assert hall.tokens == {f"Bearer {SECRET}"}
    assert {each["kind"] for each in hall.told} == {"progress", "performance", "utilization"}
    for told in hall.told:
        assert by_number[told["sequence"]].kind == told["kind"]
    assert [each["sequence"] for each in hall.told] == sorted(each["sequence"] for each in hall.told)
    assert [each["done"] for each in hall.told if each["kind"] == "progress"][-1] == 2
    first = next(each for each in hall.told if each["kind"] == "performance")["metrics"]
    assert (first["loss"], first["broken"], len(first["words"])) == (1.0, None, 1000)


def test_trouble_is_tried_again_and_refusals_are_not(hall: Hall) -> None:
    hall.answers = [503, 429, 202, 409, 422, 202]
    sender = hall.sender()
    for number in range(1, 5):
        sender.send(event("performance", number, metrics={"loss": number}))
    until(lambda: len(hall.told) == 2 and not hall.answers)
    sender.close()
    # The first came through at the third try; the second was known, the third not wanted, the fourth taken.
    assert [each["sequence"] for each in hall.told] == [1, 4]


@pytest.mark.parametrize("status", [401, 404, 302])
def test_whoever_is_not_the_service_hears_no_more(hall: Hall, status: int) -> None:
    hall.answers = [status]
    sender = hall.sender()
    sender.send(event("performance", 1, metrics={"loss": 1}))
    until(lambda: sender._is_over)
    sender.send(event("performance", 2, metrics={"loss": 2}))
    sender.close()
    assert hall.told == []


def test_of_progress_that_waits_only_the_newest_is_sent(hall: Hall) -> None:
    hall.may_answer.clear()
    sender = hall.sender()
    began = time.monotonic()
    for number in range(1, 2001):
        kind = ("progress", "performance", "utilization", "checkpoint")[number % 4]
        sender.send(event(kind, number, done=number, total=2000, metrics={"loss": 1.0}))
    assert time.monotonic() - began < 20  # waiting for an answer to each would take hours
    hall.may_answer.set()
    sender.close()
    kinds = [each["kind"] for each in hall.told]
    assert kinds.count("progress") <= 2  # the one that was under way, and the last
    assert kinds.count("performance") <= 201
    assert "checkpoint" not in kinds
    assert max(each["sequence"] for each in hall.told) == 2000
    assert [each["sequence"] for each in hall.told] == sorted(each["sequence"] for each in hall.told)


def test_where_nobody_listens_nothing_is_waited_for(tmp_path: Path) -> None:
    sender = CallbackSender("http://127.0.0.1:9/nobody", SECRET, Patience(timeout_s=1, first_retry_s=30))
    sender.send(event("progress", 1, done=1, total=2))
    until(lambda: sender._is_silent)
    began = time.monotonic()
    sender.close()
    assert time.monotonic() - began < 15  # the next try would be after 30 s


def test_last_words_are_sent_when_the_program_ends(hall: Hall, tmp_path: Path) -> None:
    code = (
        "from presage.client import track\n"
        "class Nothing:\n"
        "    def state_dict(self): return {}\n"
        "    def load_state_dict(self, state): pass\n"
        f"for _ in track(3, folder={str(tmp_path)!r}, model=Nothing()): pass\n"
    )
    environment = {
        "PRESAGE_CALLBACK_ADDRESS": hall.address, "PRESAGE_CALLBACK_TOKEN": SECRET, "PRESAGE_JOB": "j1",
        "PRESAGE_SUB_JOB": "1", "PATH": "",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert [each["done"] for each in hall.told if each["kind"] == "progress"][-1] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"PRESAGE_CALLBACK_ADDRESS": ""},
        {"PRESAGE_CALLBACK_ADDRESS": "file:///etc/passwd"},
        {"PRESAGE_CALLBACK_TOKEN": ""},
        {"PRESAGE_JOB": "../tokens"},
        {"PRESAGE_SUB_JOB": "one"},
    ],
)
def test_without_an_address_and_a_token_nobody_is_told(change: dict[str, str]) -> None:
    whole = {
        "PRESAGE_CALLBACK_ADDRESS": "https://plane.example.org", "PRESAGE_CALLBACK_TOKEN": SECRET,
        "PRESAGE_JOB": "j1", "PRESAGE_SUB_JOB": "1",
    }  # fmt: skip
    assert sender_of(whole) is not None
    assert sender_of({**whole, **change}) is None


def test_numbers_of_a_later_run_are_higher_and_exact_everywhere() -> None:
    first = first_sequence()
    time.sleep(0.002)
    assert first < first_sequence() < 2**53


def test_messages_have_no_more_than_is_taken() -> None:
    metrics = {f"{number}" + "n" * 200: [number] for number in range(300)}
    made = message_of(event("performance", 1, done=3, metrics=metrics))
    assert len(made["metrics"]) == 100
    assert {len(name) for name in made["metrics"]} == {100}
    assert all(isinstance(each, str) for each in made["metrics"].values())
