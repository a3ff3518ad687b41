"""Asking the process that traces steps: torch may end it, hang in it or fill memory in it, and never here."""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from presage.errors import (
    InputError,
    MissingDependencyError,
    PresageError,
    UnknownNameError,
    UnreadableSourceError,
    UsageError,
)
from presage.estimators.training.profile import StepProfile, parse_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess
    from types import TracebackType

    from presage.estimators.workloads import TrainingOptions, TrainingWorkload

DEVICES = ("cpu", "gpu")
TIMEOUT_S = 180.0
MEMORY_LIMIT_BYTES = 8 << 30
_CHILD = "presage.estimators.training.tracing"
_LAST_WORDS = 400
_KINDS: dict[str, type[PresageError]] = {
    kind.code: kind
    for kind in (UsageError, UnknownNameError, InputError, UnreadableSourceError, MissingDependencyError)
}


class Tracer:
    """A warm process that traces one step after the other. Safe to call from several threads, one at a time.

    The process is started by the first request and ends with `close` or the context. After one that did not answer
    it is started anew.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S, memory_limit_bytes: int = MEMORY_LIMIT_BYTES) -> None:
        self.timeout_s = timeout_s
        self.memory_limit_bytes = memory_limit_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def profile(self, workload: TrainingWorkload, *, device: str = "cpu") -> StepProfile:
        """Return what a step takes with the kernels of a `cpu` or a `gpu`. Runs the user's code, elsewhere.

        Raises InputError where the network cannot be traced, ends the process or takes too long,
        MissingDependencyError without torch.
        """
        _check_device(device)
        request = {
            "workload": asdict(workload), "device": device, "memory_limit_bytes": self.memory_limit_bytes,
            "folder": str(Path.cwd()),
        }  # fmt: skip
        with self._lock:
            answer = self._ask(json.dumps(request), workload.model)
        return _profile_in(answer)

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        words, self._words = self._words, None
        if process is not None:
            _kill(process)
            for stream in (process.stdin, process.stdout):
                _close(stream)
        _close(words)

    def _ask(self, request: str, model: str) -> dict[str, Any]:
        process = self._start()
        try:
            assert process.stdin is not None  # noqa: S101  (it is a pipe)
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process, self.timeout_s)
        except BrokenPipeError:
            line = b""
        except BaseException:
            self.close()
            raise
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise self._silence(process, model, late=line is None)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        if find_spec("torch") is None:
            raise MissingDependencyError("torch", extra="torch", purpose="Tracing a step of a training")
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process is)
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-W", "ignore", "-m", _CHILD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )  # fmt: skip
        return self._process

    def _silence(self, process: subprocess.Popen[bytes], model: str, *, late: bool) -> InputError:
        if late:
            self.close()
            return InputError(
                f"Tracing a step of {model!r} took more than {self.timeout_s:g} s",
                remedy="See that building and running the network ends, or allow more time",
            )
        status = process.wait()
        words = _last_words(self._words)
        self.close()
        return InputError(
            f"The process that traced {model!r} {_ending(status)}{f': {words}' if words else ''}",
            remedy="See that the network trains on its own, and that building it needs little memory",
        )


_SHARED = Tracer()
atexit.register(_SHARED.close)


def shared_tracer() -> Tracer:
    """Return the one warm process that everything in this one uses; it ends with this one."""
    return _SHARED


def trace_object(
    network: Any,
    inputs: Any,
    options: TrainingOptions,
    *,
    loss: Callable[[Any], Any] | None = None,
    device: str = "cpu",
    timeout_s: float = TIMEOUT_S,
) -> StepProfile:
    """Return what a step takes of a network that is here, a module or a function that makes one.

    `inputs` is a function of the batch size, or examples whose first dimension is the batch: one tensor, a tuple
    of positional arguments or a dictionary of named ones. `loss` takes the outputs. It runs in a fork of this
    process, so the module stays as it is. Raises what `Tracer.profile` raises.
    """
    _check_device(device)
    if find_spec("torch") is None:
        raise MissingDependencyError("torch", extra="torch", purpose="Tracing a step of a training")
    from presage.estimators.training.tracing import objects, step  # noqa: F401  (so that the fork need not)

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(
        target=_trace_in_fork, args=(theirs, network, inputs, loss, options, device == "gpu"), daemon=True
    )
    _start_fork(child)
    theirs.close()
    try:
        return _profile_in(_receive(ours, child, timeout_s))
    finally:
        child.kill()
        child.join()
        child.close()
        ours.close()


def _start_fork(child: ForkProcess) -> None:
    collects = gc.isenabled()
    gc.disable()  # in the fork until what is ours is frozen there
    try:
        with warnings.catch_warnings():
            # A notebook has threads; the fork uses none of what they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
    finally:
        if collects:
            gc.enable()


def _trace_in_fork(
    answers: Connection,
    network: Any,
    inputs: Any,
    loss: Callable[[Any], Any] | None,
    options: TrainingOptions,
    on_gpu: bool,
) -> None:
    # Garbage of the process that was forked stays: it may need threads that are not here, like a Kafka client, and
    # ending it without them ends this process.
    gc.freeze()
    from presage.estimators.training.tracing.child import error_document
    from presage.estimators.training.tracing.objects import ObjectSource
    from presage.estimators.training.tracing.step import trace_step

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what torch and the network print is not the notebook's
        os.dup2(nowhere, stream)
    try:
        profile = trace_step(ObjectSource(network, inputs, loss), options, on_gpu=on_gpu)
        answer = {"profile": profile.as_dict()}
    except Exception as error:  # noqa: BLE001  (the user's code runs in here, and may raise anything)
        answer = error_document(error)
    answers.send(answer)


def _receive(answers: Connection, child: ForkProcess, timeout_s: float) -> dict[str, Any]:
    if not answers.poll(timeout_s):
        raise InputError(
            f"Tracing a step took more than {timeout_s:g} s",
            remedy="See that building and running the network ends, or allow more time",
        )
    try:
        answer: dict[str, Any] = answers.recv()
    except EOFError:
        child.join()
        raise InputError(
            f"The process that traced the network {_ending(child.exitcode)}",
            remedy="See that the network trains on its own",
        ) from None
    return answer


def _profile_in(answer: dict[str, Any]) -> StepProfile:
    if "profile" in answer:
        return parse_profile(answer["profile"])
    parts = answer["error"]
    kind = _KINDS.get(parts.get("code", ""), InputError)
    error = kind.__new__(kind)  # some make their parts of others, which did not travel
    PresageError.__init__(
        error, parts["problem"], expected=parts.get("expected", ""), remedy=parts.get("remedy", "")
    )
    raise error


def _read_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes | None:
    """Return the next line, nothing where the process ended before it, None where it took too long."""
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    line = bytearray()
    end = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not selector.select(left):
                return None
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                return b""
            line += block
    return bytes(line)


def _last_words(words: IO[bytes] | None) -> str:
    if words is None:
        return ""
    words.seek(0, os.SEEK_END)
    words.seek(max(0, words.tell() - _LAST_WORDS))
    return " ".join(words.read().decode(errors="replace").split())


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"
    return f"ended with status {status}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what the user's code started goes with it
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        try:
            stream.close()
        except BrokenPipeError:
            return


def _check_device(device: str) -> None:
    if device not in DEVICES:
        raise UnknownNameError("device", device, DEVICES)
