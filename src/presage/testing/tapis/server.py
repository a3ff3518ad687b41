"""The server: from HTTP to the services and back."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from presage.testing.tapis.machine import Machine
from presage.testing.tapis.services import HANDLERS, OPEN, ROUTES, Call, NoError, Services
from presage.testing.tapis.specification import Specification

QUEUES = ("normal", "development")
_MAX_MINUTES = 2880
_MAX_BODY_BYTES = 10_000_000


class FakeTapis:
    """A tenant with one user and one execution system of `nodes` nodes; a context manager.

    Its time passes `rate` times as fast as that of clocks, so that a limit of a minute is over in a second.
    """

    username = "tester"
    password = "not a secret"  # noqa: S105  (of a server for tests)
    system = "fake-cluster"

    def __init__(
        self,
        *,
        nodes: int = 2,
        cores: int = 4,
        memory_mib: int = 8192,
        rate: float = 1.0,
        specification: Specification | None = None,
    ) -> None:
        self._sizes = (nodes, cores, memory_mib)
        self._rate = rate
        self._specification = specification
        self.violations: list[str] = []
        """Requests and answers that are not as Tapis has written down."""
        self.calls: list[str] = []
        """The operations that were asked for, in their order."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Begin to answer at `base_url`."""
        self._folder = Path(tempfile.mkdtemp(prefix="presage-tapis-"))
        fake = self

        class Handler(_Handler):
            answer = staticmethod(fake.answer)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"
        self.machine = Machine(self._folder, self._sizes[0], self._rate)
        users = {self.username: self.password}
        self.services = Services(self.base_url, self._system(), users, self.machine)
        self._operations = self._make_operations()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the server and everything that runs in it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.machine.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def answer(self, method: str, target: str, token: str, content: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the document with which a request is answered."""
        parts = urlsplit(target)
        found = self._find(method, parts.path)
        if found is None:
            return 404, _document("error", f"There is no {method} {parts.path}.", None)
        operation, path = found
        self.calls.append(operation)
        query = dict(parse_qsl(parts.query))
        try:
            body = json.loads(content) if content else None
            status, result = self._serve(operation, Call(path, query, body, self._user(operation, token)))
            document = _document("success", f"{operation} done.", result)
        except NoError as error:
            status, document = error.status, _document("error", str(error), None)
        except ValueError:
            status, document = 400, _document("error", "The body is not JSON.", None)
        if self._specification is not None and status < 400:
            problems = self._specification.answer_problems(operation, status, document)
            self.violations += [f"{operation}: {problem}" for problem in problems]
        return status, document

    def _serve(self, operation: str, call: Call) -> tuple[int, Any]:
        if self._specification is not None:
            problems = self._specification.request_problems(operation, call.query, call.body)
            self.violations += [f"{operation}: {problem}" for problem in problems]
            if problems:
                raise NoError(400, f"TAPIS_JSON_VALIDATION_ERROR {'; '.join(problems)}")
        with self.machine.lock:
            return HANDLERS[operation](self.services, call)

    def _user(self, operation: str, token: str) -> str:
        if operation in OPEN:
            return ""
        claims = self.services.signer.read(token)
        if claims is None:
            raise NoError(401, "TAPIS_SECURITY_JWT_INVALID The token is missing, forged or has ended.")
        return str(claims["tapis/username"])

    def _find(self, method: str, path: str) -> tuple[str, dict[str, str]] | None:
        for operation, its_method, pattern in self._operations:
            match = pattern.fullmatch(path)
            if match is not None and method == its_method:
                return operation, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    def _make_operations(self) -> list[tuple[str, str, re.Pattern[str]]]:
        """Return the operations with their routes, those with fixed paths first."""
        known = self._specification
        routes = ROUTES if known is None else {operation: known.route(operation) for operation in ROUTES}
        ordered = sorted(routes.items(), key=lambda item: item[1][1].count("{"))
        return [
            (operation, method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)))
            for operation, (method, path) in ordered
        ]

    def _system(self) -> dict[str, Any]:
        nodes, cores, memory_mib = self._sizes
        limits = {"minNodeCount": 1, "maxNodeCount": nodes, "maxCoresPerNode": cores, "maxMemoryMB": memory_mib}
        queues = [
            {"name": name, "hpcQueueName": f"hpc-{name}", **limits, "minMinutes": 1, "maxMinutes": minutes}
            for name, minutes in zip(QUEUES, (_MAX_MINUTES, 120), strict=True)
        ]
        return {
            "tenant": "fake",
            "id": self.system,
            "description": "Nodes that are not there",
            "systemType": "LINUX",
            "owner": self.username,
            "host": "127.0.0.1",
            "enabled": True,
            "canExec": True,
            "canRunBatch": True,
            "batchScheduler": "SLURM",
            "batchLogicalQueues": [{**queue, "maxJobs": 2**31 - 1, "maxJobsPerUser": 50} for queue in queues],
            "batchDefaultLogicalQueue": QUEUES[0],
            "jobRuntimes": [{"runtimeType": "SINGULARITY"}],
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[[str, str, str, bytes], tuple[int, dict[str, Any]]]

    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (http.server's name)
        """Keep quiet."""

    def _respond(self, method: str) -> None:
        size = min(int(self.headers.get("Content-Length") or 0), _MAX_BODY_BYTES)
        token = self.headers.get("X-Tapis-Token") or ""
        status, document = type(self).answer(method, self.path, token, self.rfile.read(size))
        is_file = isinstance(document["result"], bytes)
        content = document["result"] if is_file else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if is_file else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _document(status: str, message: str, result: object) -> dict[str, Any]:
    return {"status": status, "message": message, "version": "fake", "metadata": None, "result": result}
