from __future__ import annotations

import asyncio
import json
import socket
import threading
import time

import pytest

from presage.errors import InputError
from presage.estimators import Estimator, Quantity, Spread, UnsupportedError
from presage.estimators.plugins import BrokenPluginError, HttpEstimator, Kind, Limits, Manifest
from presage.estimators.plugins._process import run_limited
from presage.estimators.plugins.contract import MAX_DOCUMENT_BYTES, read_request, write_refusal
from presage.estimators.plugins.http import describe_address
from presage.estimators.plugins.program import command_in
from presage.testing.estimators import EstimatorContract, make_training_request
from tests.estimators.plugins.conftest import CONTAINERS, Server

REQUEST = make_training_request(Quantity.WALLTIME)
ANSWER = {"quantity": "walltime", "p10": 1.0, "p50": 2.0, "p90": 4.0, "basis": "stated"}


def estimator_at(url: str, *, timeout_s: float = 5.0, token_variable: str = "") -> HttpEstimator:
    limits = Limits(timeout_s=timeout_s)
    return HttpEstimator(
        Manifest("far", "1", Quantity.WALLTIME, Kind.HTTP, url=url, limits=limits, token_variable=token_variable)
    )


def by_program(body: bytes) -> tuple[int, bytes]:
    """Answer as the reference program does."""
    folder = CONTAINERS / "roofline-walltime"
    command = command_in(("python3", "-I", "estimator.py"), folder)
    done = run_limited(command, body, timeout_s=10, environment={}, folder=folder)
    return {0: 200, 2: 400, 3: 422}.get(done.exit_code, 500), done.stdout


class TestHttpContract(EstimatorContract):
    @pytest.fixture
    def estimator(self, server: Server) -> Estimator:
        server.answer = by_program
        return estimator_at(server.url)


def test_the_request_is_posted_and_the_answer_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TOKEN", "secret")
    server.answer = lambda _: (200, json.dumps(ANSWER).encode())
    answer = estimator_at(server.url, token_variable="FAR_TOKEN").estimate(REQUEST)
    assert (answer.spread, answer.estimator) == (Spread(1, 2, 4), "far")
    headers, body = server.requests[0]
    assert read_request(body) == REQUEST
    assert headers["content-type"] == "application/json"
    assert headers["authorization"] == "Bearer secret"


def test_it_can_be_asked_from_within_an_event_loop(server: Server) -> None:
    server.answer = lambda _: (200, json.dumps(ANSWER).encode())

    async def ask() -> float:
        return estimator_at(server.url).estimate(REQUEST).spread.p50

    assert asyncio.run(ask()) == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (write_refusal("no such GPU"), "no such GPU"),
        (b'{"detail": "too large"}', "too large"),
        (b"not today", "not today"),
        (b"", "it gave no reason"),
    ],
)
def test_422_is_a_refusal(body: bytes, reason: str, server: Server) -> None:
    server.answer = lambda _: (422, body)
    with pytest.raises(UnsupportedError, match=reason) as refusal:
        estimator_at(server.url).estimate(REQUEST)
    assert refusal.type is UnsupportedError
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [502, 503])
def test_a_busy_server_is_asked_again(status: int, server: Server) -> None:
    replies = iter([(status, b""), (status, b""), (200, json.dumps(ANSWER).encode())])
    server.answer = lambda _: next(replies)
    assert estimator_at(server.url).estimate(REQUEST).spread.p50 == 2
    server.answer = lambda _: (status, b"")
    with pytest.raises(BrokenPluginError, match=rf"busy: status {status} \(3 attempts\)"):
        estimator_at(server.url).estimate(REQUEST)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, b"oops", "status 500: oops"),
        (302, b"", "status 302"),
        (404, b"", "status 404"),
        (200, b"<html>", "not as api 1 has it"),
        (200, b"x" * (MAX_DOCUMENT_BYTES + 1), "more than"),
    ],
)
def test_any_other_answer_is_a_failure_at_once(status: int, body: bytes, problem: str, server: Server) -> None:
    server.answer = lambda _: (status, body)
    with pytest.raises(BrokenPluginError, match=problem):
        estimator_at(server.url).estimate(REQUEST)
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(BrokenPluginError, match="cannot be reached"):
            estimator_at(address).estimate(REQUEST)


@pytest.mark.parametrize("url", ["http://", "http://[", "http://a b/", "http://exa\udcffmple/", "http://:99999/"])
def test_an_address_that_is_none_is_a_failure(url: str) -> None:
    with pytest.raises(BrokenPluginError):
        estimator_at(url, timeout_s=2).estimate(REQUEST)


def test_a_server_that_drips_is_left_at_the_time_limit() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        stop = threading.Event()
        dripping = threading.Thread(target=_drip, args=(listening, stop))
        dripping.start()
        began = time.monotonic()
        with pytest.raises(BrokenPluginError, match=r"did not answer within 0\.6 s"):
            estimator_at(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=0.6).estimate(REQUEST)
        assert time.monotonic() - began < 5
        stop.set()
        dripping.join()


def _drip(listening: socket.socket, stop: threading.Event) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
        while not stop.wait(0.05):
            try:
                connection.sendall(b"y")
            except OSError:
                return


def test_an_address_describes_itself(server: Server) -> None:
    described = {"api": 1, "name": "far", "version": "2.0", "quantity": "wait", "metrics": {"median_error": 0.1}}
    server.described = (200, json.dumps(described).encode())
    manifest = describe_address(server.url)
    assert (manifest.name, manifest.version, manifest.quantity) == ("far", "2.0", Quantity.WAIT)
    assert (manifest.kind, manifest.url, manifest.metrics) == (Kind.HTTP, server.url, {"median_error": 0.1})


@pytest.mark.parametrize("described", [(404, b""), (200, b"[]"), (200, b"<html>"), (200, b'{"api": 7}')])
def test_an_address_that_says_nothing_of_itself_is_an_input_error(
    described: tuple[int, bytes], server: Server
) -> None:
    server.described = described
    with pytest.raises(InputError, match="describe"):
        describe_address(server.url)
