from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from presage.errors import InputError, MissingDependencyError, PresageError, UnknownNameError, UsageError
from presage.fanout import fan_out


def square(number: int) -> int:
    return number * number


def slow_first(number: int) -> int:
    time.sleep(0.3 if number == 0 else 0)
    return number


def fail(kind: str) -> None:
    if kind == "unknown":
        raise UnknownNameError("rule", "sjff", ["sjf", "ljf"])
    if kind == "input":
        raise InputError("A file is bad", expected="a good one", remedy="Mend it")
    raise RuntimeError(lambda: kind)


def die(_: int) -> None:
    os._exit(3)


def unsendable(_: int) -> Any:
    return lambda: None


def process_of(_: int) -> int:
    return os.getpid()


def test_processes_give_the_same_as_this_process_in_the_order_of_the_items() -> None:
    items = list(range(7))
    assert fan_out(square, items, workers=2) == fan_out(square, items, engine="serial") == [n * n for n in items]
    assert fan_out(slow_first, items, workers=3) == items
    assert fan_out(square, []) == []


def test_more_workers_than_one_are_other_processes() -> None:
    pids = fan_out(process_of, range(4), workers=2)
    assert os.getpid() not in pids
    assert len(set(pids)) <= 2
    assert fan_out(process_of, range(3), workers=1) == [os.getpid()] * 3
    assert fan_out(process_of, range(1), workers=4) == [os.getpid()]


@pytest.mark.parametrize("engine", ["local", "serial"])
def test_progress_is_told_here(engine: str) -> None:
    told: list[tuple[int, int]] = []
    fan_out(square, range(3), engine=engine, workers=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("engine", ["local", "serial"])
def test_exceptions_come_back_as_they_are(engine: str) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'sjf'") as unknown:
        fan_out(fail, ["unknown"] * 2, engine=engine, workers=2)
    assert unknown.value.suggestion == "sjf"
    with pytest.raises(InputError) as bad:
        fan_out(fail, ["input"] * 2, engine=engine, workers=2)
    assert bad.value.as_dict()["remedy"] == "Mend it"


def test_the_story_of_a_worker_is_kept() -> None:
    with pytest.raises(ValueError, match="math domain error") as error:
        fan_out(math.sqrt, [1.0, -1.0], workers=2)
    assert "raised in a worker" in error.value.__notes__[0]


def test_what_cannot_travel_is_told_in_words() -> None:
    with pytest.raises(PresageError, match="A worker failed with RuntimeError"):
        fan_out(fail, ["other"] * 2, workers=2)
    with pytest.raises((PresageError, AttributeError), match="lambda"):
        fan_out(unsendable, range(2), workers=2)
    with pytest.raises(UsageError, match="top level of a module"):
        fan_out(lambda item: item, range(2), workers=2)


def test_a_worker_that_dies_is_an_error_and_no_hang() -> None:
    with pytest.raises(PresageError, match="ended without an answer"):
        fan_out(die, range(3), workers=2)


def test_wrong_calls_are_answered() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'local'"):
        fan_out(square, [1], engine="locale")
    with pytest.raises(UsageError, match="at least 1"):
        fan_out(square, [1], workers=0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[ray\]"):
        fan_out(square, [1, 2], engine="ray")


class FakeRay:
    """As much of Ray as is used, running every task when its result is fetched."""

    def __init__(self) -> None:
        self.started = False
        self.most_at_once = 0
        self.cancelled: list[Any] = []

    def is_initialized(self) -> bool:
        return self.started

    def init(self, **_: Any) -> None:
        self.started = True

    def remote(self, function: Any) -> Any:
        class Task:
            def remote(self, *arguments: Any) -> Any:
                return lambda: function(*arguments)

        return Task()

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        self.most_at_once = max(self.most_at_once, len(references))
        # The last one given is done first, as may happen.
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: Any) -> Any:
        return reference()

    def cancel(self, reference: Any, *, force: bool) -> None:
        assert force
        self.cancelled.append(reference)


def test_ray_gets_at_most_as_many_tasks_as_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert fan_out(square, [1, 2, 3, 4, 5], engine="ray", workers=2) == [1, 4, 9, 16, 25]
    assert (ray.started, ray.most_at_once) == (True, 2)
    assert fan_out(square, [1, 2, 3], engine="ray") == [1, 4, 9]
    assert ray.most_at_once == 3


def test_failures_on_ray_come_back_and_end_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match="A file is bad"):
        fan_out(fail, ["input", "input", "input"], engine="ray")
    assert len(ray.cancelled) == 2


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(sent: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "sleepers.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, pathlib, signal, time
            from presage.fanout import fan_out

            def sleep(folder):
                pathlib.Path(folder, str(os.getpid())).touch()
                time.sleep(60)

            if __name__ == "__main__":
                # Background jobs of a shell start with the interrupt ignored.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                fan_out(sleep, ["pids"] * 4, workers=2)
            """
        )
    )
    (tmp_path / "pids").mkdir()
    parent = subprocess.Popen([sys.executable, script], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        pids = _wait_for_files(tmp_path / "pids", 2)
        parent.send_signal(sent)
        _, err = parent.communicate(timeout=10)
    finally:
        parent.kill()
    assert err.rstrip().endswith("KeyboardInterrupt" if sent == signal.SIGINT else "")
    _wait_until(lambda: not any(_is_running(pid) for pid in pids))


def _wait_for_files(folder: Path, count: int) -> list[str]:
    _wait_until(lambda: len([*folder.iterdir()]) == count)
    return [path.name for path in folder.iterdir()]


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True
