"""The cluster: its daemons, and commands run in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from presage.errors import PresageError, UsageError
from presage.testing.slurm import _accounting, _rest
from presage.testing.slurm._configuration import configuration
from presage.testing.slurm._system import (
    free_ports,
    is_listening,
    make_folder,
    processes_with,
    read_line,
    stop,
    tail,
)
from presage.testing.slurm.jobs import SlurmJob, parse_job

PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmstepd", "sbatch", "sinfo", "scontrol", "scancel", "squeue")
PACKAGES = "slurm-wlm munge faketime"
# Debian keeps daemons where not every user looks.
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_CLOCK_VARIABLES = ("LD_PRELOAD=", "FAKETIME=", "FAKETIME_SHARED=")


def missing_for_slurm(*, fast: bool = True, accounting: bool = False, rest: bool = False) -> str:
    """Return why no cluster can be started here, as a reason to skip a test; empty if one can.

    `fast`, `accounting` and `rest` say whether the fast clock, a database of ended jobs and slurmrestd are needed
    as well.
    """
    parts = [part for part, is_needed in ((_accounting, accounting), (_rest, rest)) if is_needed]
    programs = [*PROGRAMS, *(["faketime"] if fast else []), *(name for part in parts for name in part.PROGRAMS)]
    missing = [name for name in programs if shutil.which(name, path=_PATH) is None]
    if missing or (rest and not _rest.has_tokens()):
        packages = " ".join([PACKAGES, *(part.PACKAGES for part in parts)])
        return f"{', '.join(missing) or 'auth/jwt'} not found; install {packages}"
    emulated = shutil.which("slurmctld", path=_PATH)
    if emulated and os.path.realpath(emulated).endswith("emulator"):
        return "slurmctld is the one of slurm-wlm-emulator, which runs no jobs; remove that package"
    return ""


@dataclass
class SlurmCluster:
    """A cluster of `nodes` equal nodes; a context manager.

    `parameters` are SchedulerParameters (a value None is a bare word, like `defer`). `config` are lines of
    slurm.conf, which win over those written here. `partitions` are whole `PartitionName=` lines, one default
    partition of all nodes without them. With `accounting` there is a database that `sacct` reads, which takes
    about 5 s more to start. With `rest` slurmrestd listens at `rest_socket` and, for those with a token, at
    `rest_address`.
    """

    nodes: int = 4
    cpus: int = 1
    memory_mb: int = 1000
    rate: int = 1
    parameters: Mapping[str, object | None] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    partitions: Sequence[str] = ()
    accounting: bool = False
    rest: bool = False
    start_timeout_s: float = 60.0
    folder: Path = field(init=False)
    environment: dict[str, str] = field(init=False)
    rest_socket: str = field(init=False, default="")
    rest_address: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.cpus < 1 or self.rate < 1:
            raise UsageError(
                "A cluster needs at least one node with one processor, and a clock rate of at least 1"
            )
        self._daemons: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._clock_origin = (0.0, 0.0)

    def __enter__(self) -> Self:
        if reason := missing_for_slurm(fast=self.rate > 1, accounting=self.accounting, rest=self.rest):
            raise PresageError(f"Slurm cannot be started: {reason}")
        self.folder = make_folder()
        self.environment = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, command: Sequence[str], *, stdin: str = "", timeout_s: float = 30.0) -> str:
        """Return what a command printed, run on the cluster's clock. Raises PresageError if it fails."""
        try:
            done = subprocess.run(  # noqa: S603  (the caller's own command)
                list(command),
                env=self.environment,
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            raise self._failure(f"{command[0]} did not answer within {timeout_s:g} s") from None
        if done.returncode:
            raise self._failure(f"{' '.join(command)} exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, options: Sequence[str], script: str) -> int:
        """Submit a batch job of shell commands; return its number. Its output is dropped."""
        command = ["sbatch", "--parsable", "--output=/dev/null", f"--chdir={self.folder}", *options]
        return int(self.run(command, stdin=f"#!/bin/sh\n{script}\n").partition(";")[0])

    def jobs(self) -> dict[int, SlurmJob]:
        """Return all jobs that the controller knows, by number."""
        lines = self.run(["scontrol", "--oneliner", "show", "jobs"]).splitlines()
        found = (parse_job(line) for line in lines if line.startswith("JobId="))
        return {job.number: job for job in found}

    def wait_for_jobs(self, *, timeout_s: float = 60.0, poll_s: float = 0.2) -> None:
        """Wait until no job waits, runs or completes, looking every `poll_s`.

        Raises PresageError after `timeout_s`. Both are real seconds.
        """
        self._wait(lambda: not self._queued(), "the queue to empty", timeout_s, poll_s)

    def now_s(self) -> float:
        """Return the cluster's clock, in seconds since 1970."""
        origin_s, real_s = self._clock_origin
        return origin_s + (time.monotonic() - real_s) * self.rate

    def sleep_until(self, cluster_s: float) -> None:
        """Sleep until the cluster's clock shows `cluster_s`."""
        time.sleep(max(0.0, (cluster_s - self.now_s()) / self.rate))

    def log(self, daemon: str = "slurmctld") -> str:
        """Return the log of a daemon: `munged`, `slurmctld`, or `slurmd.n1` and so on."""
        return (self.folder / "log" / f"{daemon}.log").read_text(errors="replace")

    def processes(self) -> list[int]:
        """Return the ids of all processes that belong to this cluster, job steps included."""
        return processes_with(f"SLURM_CONF={self.folder / 'slurm.conf'}")

    def stop(self) -> None:
        """Stop everything and delete the folder; does nothing the second time."""
        with contextlib.suppress(PresageError):
            self._cancel_jobs()
        for name, daemon in reversed(self._daemons):
            stop(daemon, signal.SIGTERM if name != "clock" else None)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._daemons.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        for name in ("log", "munge", "run", "spool", "state"):
            (self.folder / name).mkdir(mode=0o755)
        self._start_clock()
        free = free_ports(self.nodes + 3)
        ports = free[2:]
        accounting = _accounting.lines_of(self.folder, free[0]) if self.accounting else {}
        tokens = _rest.lines_of(self.folder) if self.rest else {}
        text = configuration(
            self.folder, ports, node=f"CPUs={self.cpus} RealMemory={self.memory_mb}", rate=self.rate,
            parameters=self.parameters, config={**accounting, **tokens, **self.config}, partitions=self.partitions,
        )  # fmt: skip
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "munge" / "key").touch(mode=0o600)
        (self.folder / "munge" / "key").write_bytes(os.urandom(128))
        self._start_daemon("munged", self._munged())
        self._wait((self.folder / "munge" / "sock").is_socket, "munged's socket", self.start_timeout_s)
        if self.accounting:
            self._start_accounting(free[0], tokens)
        conf = self.environment["SLURM_CONF"]
        self._start_daemon("slurmctld", ["slurmctld", "-D", "-i", "-f", conf])
        for number in range(1, self.nodes + 1):
            (self.folder / "spool" / f"n{number}").mkdir()
            self._start_daemon(f"slurmd.n{number}", ["slurmd", "-D", "-f", conf, "-N", f"n{number}"])
        self._wait(self._all_idle, f"{self.nodes} idle nodes", self.start_timeout_s)
        if self.rest:
            self._start_rest(free[1])

    def _start_rest(self, port: int) -> None:
        socket = self.folder / "run" / "rest.sock"
        self.rest_socket, self.rest_address = f"unix:{socket}", f"http://127.0.0.1:{port}"
        for name, address in (("local", self.rest_socket), ("jwt", self.rest_address.removeprefix("http://"))):
            self._start_daemon(f"slurmrestd.{name}", _rest.command(name, address, has_accounting=self.accounting))
        self._wait(lambda: socket.is_socket() and is_listening(port), "slurmrestd", self.start_timeout_s)

    def _start_accounting(self, port: int, tokens: Mapping[str, object]) -> None:
        (self.folder / "db").mkdir()
        # slurmdbd has no option for the database's socket; the client library reads this variable.
        self.environment["MYSQL_UNIX_PORT"] = str(self.folder / "db" / "sock")
        self.run(_accounting.install_command(self.folder), timeout_s=self.start_timeout_s)
        self._start_daemon("mariadbd", _accounting.database_command(self.folder))
        self._wait(lambda: self._succeeds(_accounting.ping_command(self.folder)), "mariadbd", self.start_timeout_s)
        _accounting.write_configuration(self.folder, port, tokens)
        self._start_daemon("slurmdbd", ["slurmdbd", "-D"])
        add = ["sacctmgr", "--immediate", "--quiet", "add", "cluster", "virtual"]
        self._wait(lambda: self._succeeds(add), "slurmdbd", self.start_timeout_s, poll_s=0.3)

    def _succeeds(self, command: Sequence[str]) -> bool:
        with contextlib.suppress(PresageError):
            self.run(command, timeout_s=20)
            return True
        return False

    def _munged(self) -> list[str]:
        folder = self.folder / "munge"
        paths = {"key-file": "key", "socket": "sock", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{key}={folder / name}" for key, name in paths.items()]
        return ["munged", "--foreground", "--force", f"--log-file={self.folder}/log/munged.log", *options]

    def _start_clock(self) -> None:
        """Start the holder of the fast clock and take over its environment; it ends when its input closes."""
        if self.rate > 1:
            command = ["faketime", "-m", "-f", f"+0 x{self.rate}", "sh", "-c", "env -0; echo; exec cat"]
            holder = subprocess.Popen(  # noqa: S603  (a command of our own)
                command,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._daemons.append(("clock", holder))
            assert holder.stdout is not None
            told = read_line(holder.stdout.fileno()).split("\0")
            self.environment |= dict(entry.split("=", 1) for entry in told if entry.startswith(_CLOCK_VARIABLES))
        before = time.monotonic()
        origin_s = float(self.run(["date", "+%s.%N"]))
        self._clock_origin = (origin_s, (before + time.monotonic()) / 2)

    def _start_daemon(self, name: str, command: list[str]) -> None:
        with (self.folder / "log" / f"{name}.err").open("wb") as out:
            daemon = subprocess.Popen(  # noqa: S603  (a command of our own)
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        self._daemons.append((name, daemon))

    def _all_idle(self) -> bool:
        with contextlib.suppress(PresageError):
            idle = self.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], timeout_s=5)
            return len(set(idle.split())) == self.nodes
        return False

    def _queued(self) -> list[str]:
        return self.run(["squeue", "-h", "-o", "%A"]).split()

    def _cancel_jobs(self) -> None:
        alive = {name for name, daemon in self._daemons if daemon.poll() is None}
        if "slurmctld" in alive and (jobs := self._queued()):
            self.run(["scancel", "--quiet", *jobs])
            self._wait(lambda: not self._queued(), "cancelled jobs to end", 10.0)

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float, poll_s: float = 0.05) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            for name, daemon in self._daemons:
                if daemon.poll() is not None:
                    raise self._failure(f"{name} ended with {daemon.returncode} while waiting for {what}")
            if condition():
                return
            if time.monotonic() > deadline:
                raise self._failure(f"Waited {timeout_s:g} s for {what} in vain")
            time.sleep(poll_s)

    def _failure(self, problem: str) -> PresageError:
        logs = [path for path in sorted(self.folder.glob("log/*")) if path.stat().st_size]
        tails = [f"{path.name}:\n{tail(path)}" for path in logs[:4]]
        return PresageError("\n".join([problem, *tails]))
