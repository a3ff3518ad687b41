from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from presage.estimators.plugins import Kind, Limits, Manifest
from presage.estimators.plugins.manifest import read_manifest
from presage.estimators.plugins.program import ProgramEstimator

CONTAINERS = Path(__file__).parents[3] / "containers"
MakeProgram = Callable[..., ProgramEstimator]


def reference_program(name: str) -> ProgramEstimator:
    """Return a reference estimator as it lies in the repository."""
    return ProgramEstimator(read_manifest(CONTAINERS / name), CONTAINERS / name)


@pytest.fixture
def make_program(tmp_path: Path) -> MakeProgram:
    """Make an estimator of a few lines of Python."""

    def make(code: str, **limits: Any) -> ProgramEstimator:
        (tmp_path / "program.py").write_text(code)
        manifest = Manifest(
            "tried", "1", "walltime", Kind.PROGRAM, entrypoint=("python3", "program.py"), limits=Limits(**limits)
        )
        return ProgramEstimator(read_back(manifest), tmp_path)

    return make


def read_back(manifest: Manifest) -> Manifest:
    from presage.estimators.plugins.manifest import parse_manifest

    return parse_manifest({"api": 1, **json.loads(json.dumps(manifest.as_dict()))}, place="the test")


class Server:
    """A server on loopback that answers as it is told to."""

    def __init__(self) -> None:
        self.answer: Callable[[bytes], tuple[int, bytes]] = lambda _: (200, b"")
        self.described: tuple[int, bytes] = (404, b"")
        self.requests: list[tuple[dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                server.requests.append(({key.lower(): text for key, text in self.headers.items()}, body))
                self.reply(*server.answer(body))

            def do_GET(self) -> None:
                self.reply(*server.described)

            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/estimate"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()
