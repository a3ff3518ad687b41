"""When a live Slurm itself expects jobs to start: what its users are told today."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from presage.errors import PresageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TOLD = re.compile(r"to start at (\S+)")
_FORMAT = "%i|%V|%S"
_CLOCK = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
"""Slurm prints times without their zone."""


@dataclass(frozen=True)
class ExpectedStart:
    """What Slurm says of a job that waits; times are seconds since 1970."""

    job_id: str
    submit_s: float
    start_s: float | None
    """None while its backfilling has not come to the job yet."""

    @property
    def wait_s(self) -> float | None:
        """How long the job will have waited."""
        return None if self.start_s is None else max(self.start_s - self.submit_s, 0.0)


@dataclass(frozen=True)
class SlurmForecast:
    """Asks the Slurm that the commands of this machine belong to, or that `environment` names.

    Slurm plans with limits, and knows only the jobs that its backfilling looks at. It gives single times and no
    intervals. Each answer is one command, which may take up to `timeout_s` real seconds. `now_s` is its clock.

    All methods raise PresageError if the command is missing, fails, or does not answer in time.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    timeout_s: float = 30.0
    now_s: Callable[[], float] = time.time

    def wait_s(self, options: Sequence[str]) -> float:
        """Return how long a batch job with these options of `sbatch` would wait if it were submitted now."""
        now_s = self.now_s()
        return max(self.start_s(options) - now_s, 0.0)

    def start_s(self, options: Sequence[str]) -> float:
        """Return when a batch job with these options would start, in seconds since 1970; nothing is submitted."""
        command = ["sbatch", "--test-only", *options]
        answer = self._run(command, stdin="#!/bin/sh\n")
        told = _TOLD.search(answer)
        start_s = parse_time(told.group(1)) if told else None
        if start_s is None:
            raise PresageError(
                f"{' '.join(command)} told no start: {answer.strip() or 'nothing'}",
                expected="a line with 'to start at' and a time",
            )
        return start_s

    def waiting(self) -> list[ExpectedStart]:
        """Return the jobs that wait now, with their expected starts."""
        lines = self._run(["squeue", "--noheader", "--states=PENDING", f"--format={_FORMAT}"]).splitlines()
        return [parse_line(line) for line in lines if line.strip()]

    def _run(self, command: Sequence[str], stdin: str = "") -> str:
        """Return all that a command said: sbatch tells the start of a test as an error."""
        try:
            done = subprocess.run(  # noqa: S603  (Slurm's own command; options are separate words, no shell)
                list(command),
                env={**self.environment, **_CLOCK},
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=self.timeout_s,
            )
        except OSError:
            raise PresageError(
                f"There is no {command[0]} here", remedy="Ask on a machine that has the commands of Slurm"
            ) from None
        except subprocess.TimeoutExpired:
            raise PresageError(
                f"{command[0]} did not answer within {self.timeout_s:g} s",
                remedy="Check that slurmctld runs, or allow more time",
            ) from None
        if done.returncode:
            raise PresageError(f"{' '.join(command)} exited {done.returncode}: {done.stdout.strip()}")
        return done.stdout


def parse_line(line: str) -> ExpectedStart:
    """Return the job of a line of `squeue`. Raises PresageError."""
    job_id, *times = line.strip().split("|")
    submit_s = parse_time(times[0]) if len(times) == 2 else None
    if submit_s is None:
        raise PresageError(
            f"squeue printed {line.strip()!r}", expected="a job's number, its submit and its expected start"
        )
    return ExpectedStart(job_id, submit_s, parse_time(times[1]))


def parse_time(text: str) -> float | None:
    """Return a time as Slurm prints it in UTC, in seconds since 1970; None if it is not known."""
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
