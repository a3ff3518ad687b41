"""One function over many items: in this process, in processes of this machine, or on a Ray cluster.

`local` starts fresh processes (spawn), because the threads of polars and numba do not survive a fork. So the
function and the items must be picklable, the function must be importable by name, and a script that calls
`fan_out` needs the usual `if __name__ == "__main__":`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeVar

from presage.errors import MissingDependencyError, PresageError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from multiprocessing.context import SpawnProcess

T = TypeVar("T")
R = TypeVar("R")

ENGINES = ("local", "ray", "serial")
_STOP_WAIT_S = 5


def fan_out(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    engine: str = "local",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[R]:
    """Return `function(item)` for every item, in the order of the items.

    `engine` is "local" (processes; this one alone if there is one item or one worker), "ray" or "serial".
    `workers` is how many items are worked on at once, by default as many as there are processors to use, on Ray
    as many as the cluster takes. `progress` is called in this process with (items done, items in all).

    The first exception of a worker is raised here, of the same class and with the same parts, and the other
    workers are stopped; so they are on Ctrl-C. Raises UnknownNameError for another engine, UsageError for a
    function that cannot be sent, MissingDependencyError without the extra `ray`.
    """
    results: list[Any] = [None] * len(items)
    with closing(as_done(function, items, engine=engine, workers=workers)) as outcomes:
        for done, (index, outcome) in enumerate(outcomes, start=1):
            results[index] = outcome
            if progress:
                progress(done, len(items))
    return results


def as_done(
    function: Callable[[T], R], items: Sequence[T], *, engine: str = "local", workers: int | None = None
) -> Generator[tuple[int, R]]:
    """Yield the place and the result of each item once it is done, as `fan_out` works on them.

    For callers that want what there is when they are interrupted. Closing it stops the workers.
    """
    run = _engine(engine)
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can do nothing", expected="at least 1")
    at_once = min(workers or (len(items) if engine == "ray" else processors_to_use()), len(items))
    if engine == "local" and at_once <= 1:
        run = _run_serial
    with closing(run(function, items, at_once)) as outcomes:
        for index, outcome in outcomes:
            if isinstance(outcome, _Failure):
                raise outcome.rebuilt()
            yield index, outcome


def check_engine(engine: str) -> None:
    """Raise UnknownNameError, with the closest match, or MissingDependencyError if `engine` cannot be used."""
    _engine(engine)


def processors_to_use() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of_machine_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class _Failure:
    """An exception on its way to another process, in parts: not every class can be called with its `args`."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    state: dict[str, Any]
    story: str

    @classmethod
    def of(cls, error: BaseException) -> _Failure:
        story = "".join(traceback.format_exception(error))
        failure = cls(type(error), error.args, dict(vars(error)), story)
        try:
            pickle.loads(pickle.dumps(failure))  # noqa: S301  (our own bytes)
        except Exception:  # noqa: BLE001  (whatever cannot travel is told in words)
            told = PresageError(f"A worker failed with {type(error).__name__}: {error}")
            return cls(PresageError, told.args, dict(vars(told)), story)
        return failure

    def rebuilt(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.args = self.arguments
        error.__dict__.update(self.state)
        error.add_note(f"It was raised in a worker:\n{self.story}")
        return error


def _attempt(function: Callable[[T], R], item: T) -> R | _Failure:
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001  (it is raised again where the result is wanted)
        return _Failure.of(error)


def _run_serial(function: Callable[[T], R], items: Sequence[T], _workers: int) -> Generator[tuple[int, R]]:
    for index, item in enumerate(items):
        yield index, function(item)


def _run_local(
    function: Callable[[T], R], items: Sequence[T], workers: int
) -> Generator[tuple[int, R | _Failure]]:
    todo = iter(enumerate(items))
    busy: dict[Connection, int] = {}
    with _crew(workers) as crew:
        for connection in crew:
            _hand_over(connection, function, todo, busy)
        while busy:
            ready = wait(list(busy))
            for connection in [each for each in busy if each in ready]:
                yield busy.pop(connection), _receive(connection)
                _hand_over(connection, function, todo, busy)


@contextmanager
def _crew(workers: int) -> Iterator[list[Connection]]:
    """Give connections to so many waiting processes; they are ended when the block is left, however it is."""
    context = multiprocessing.get_context("spawn")
    crew: list[tuple[SpawnProcess, Connection]] = []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            # Without a copy of their end here, its end is told when the process dies.
            theirs.close()
            crew.append((process, ours))
        yield [connection for _, connection in crew]
    finally:
        for process, connection in crew:
            connection.close()
            process.terminate()
        for process, _ in crew:
            process.join(_STOP_WAIT_S)


def _serve(connection: Connection) -> None:
    """Answer calls until the other side goes away."""
    # Ctrl-C reaches the whole group; the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: nobody waits for an answer any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _answer(call: bytes) -> bytes:
    try:
        function, item = pickle.loads(call)  # noqa: S301  (from the process that started this one)
        return pickle.dumps(function(item))
    except Exception as error:  # noqa: BLE001  (it is raised again where the result is wanted)
        return pickle.dumps(_Failure.of(error))


def _hand_over(
    connection: Connection,
    function: Callable[..., Any],
    todo: Iterator[tuple[int, Any]],
    busy: dict[Connection, int],
) -> None:
    """Send the next item, if there is one left, and note in `busy` who works on it."""
    following = next(todo, None)
    if following is None:
        return
    index, item = following
    call = _pickled(function, item)
    try:
        connection.send_bytes(call)
    except OSError:
        raise _died() from None
    busy[connection] = index


def _receive(connection: Connection) -> Any:
    try:
        answer = connection.recv_bytes()
    except (EOFError, OSError):
        raise _died() from None
    return pickle.loads(answer)  # noqa: S301  (from a process that this one started)


def _died() -> PresageError:
    return PresageError(
        "A worker process ended without an answer",
        remedy='Use fewer workers if memory is short; a script needs `if __name__ == "__main__":` around its call',
    )


def _pickled(function: Callable[..., Any], item: Any) -> bytes:
    try:
        return pickle.dumps((function, item))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"A call of {function!r} cannot be sent to another process: {error}",
            expected="a function at the top level of a module, and items that can be pickled",
            remedy="Move it there, or use the engine 'serial'",
        ) from None


def _run_ray(function: Callable[[T], R], items: Sequence[T], workers: int) -> Generator[tuple[int, R | _Failure]]:
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    task = ray.remote(_attempt)
    todo = iter(enumerate(items))
    running: dict[Any, int] = {}
    try:
        while True:
            following = islice(todo, workers - len(running))
            running |= {task.remote(function, item): index for index, item in following}
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                yield running.pop(reference), ray.get(reference)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise MissingDependencyError("ray", extra="ray", purpose="Working on a Ray cluster") from None


_RUNNERS: dict[str, Callable[..., Generator[tuple[int, Any]]]] = {
    "local": _run_local,
    "ray": _run_ray,
    "serial": _run_serial,
}


def _engine(name: str) -> Callable[..., Generator[tuple[int, Any]]]:
    if name not in _RUNNERS:
        raise UnknownNameError("engine", name, ENGINES)
    if name == "ray":
        _import_ray()
    return _RUNNERS[name]
