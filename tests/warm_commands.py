"""Runs `presage` commands as processes of their own that need not start and import everything anew.

A process imports what commands need, runs none of it, and forks for every command. The fork has the folder, the
environment and the outputs of that command alone, and ends as any Python process does.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

# Threads that work start with the first work and not with these imports, so that a fork is safe.
IMPORTED = (
    "presage.cli.main", "presage.simulator", "presage.foundation", "presage.clusters", "presage.planner",
    "presage.orchestrator", "pydantic_settings", "rich.table", "typer.rich_utils", "polars", "numba",
    "scipy.stats", "lightgbm", "matplotlib.pyplot", "torch",
)  # fmt: skip


class WarmCommands:
    """Starts the process with the first command and ends it with `close`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None

    def run(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        timeout_s: float,
    ) -> int:
        """Run `presage` with `arguments` and return its exit code, which is below 0 where a signal ended it.

        What it prints goes into the two files, which may be the same. Raises TimeoutError.
        """
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        wanted = [list(arguments), str(folder), dict(environment), str(stdout), str(stderr)]
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], timeout_s)[0]:
            self.close()
            raise TimeoutError(f"presage {' '.join(arguments)} takes more than {timeout_s} s")
        return int(process.stdout.readline())

    def close(self) -> None:
        """End the process and the command that it may be running."""
        if self._process:
            with self._process, contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", __file__],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def serve() -> None:
    """Fork for every line of standard input and answer each with an exit code."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _make_numba_ready()
    gc.freeze()  # or the first collection of every fork would copy most of the memory
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            _become(*json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])}\n")
        sys.stdout.flush()


def _make_numba_ready() -> None:
    """Let numba load its tables, which takes longer than its import, without a thread or a cache."""
    with contextlib.suppress(ImportError):
        import numba

        numba.njit(lambda number: number + 1)(1)


def _become(arguments: list[str], folder: str, environment: dict[str, str], stdout: str, stderr: str) -> NoReturn:
    """Run the command in place of this process."""
    from presage.cli.main import run

    sys.argv = ["presage", *arguments]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115  (open to the end of the process)
    os.dup2(sys.stdin.fileno(), 0)
    for target, descriptor in ((stdout, 1), (stderr, 2)):
        os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  (as Python does at the end of a program)
        traceback.print_exc()
        code = 1
    # All that the end of Python does, except for taking down one module after another, which takes a second.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve()
