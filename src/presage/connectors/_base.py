"""The contract of a connector, and the values that pass through it."""

from __future__ import annotations

import os
import re
import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from presage.errors import UsageError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from presage.clusters.systems import System
    from presage.traces import Trace

ACTIVE = frozenset({Outcome.PENDING, Outcome.RUNNING})
"""States that a job leaves again; every other is final."""
MAX_NAME_CHARS = 256
MAX_TEXT_BYTES = 100_000
"""Of one argument or one value of the environment: the kernel hands a program no more than 128 KiB."""
MAX_SCRIPT_BYTES = 4_000_000
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Submission:
    """A job to hand over. None leaves a choice to the script's own directives and the cluster's defaults.

    Amounts are those of one node. Raises UsageError for what no cluster can take: a script without an
    interpreter line, a NUL, a text longer than a program can be given, amounts below one.
    """

    key: str
    """The caller's own name for this submission, carried into the cluster so that `Connector.find` finds it."""
    name: str
    script: str
    """The text of the batch script; begins with `#!`."""
    arguments: tuple[str, ...] = ()
    working_directory: str | None = None
    """None: the folder that the submitting process is in."""
    output: str | None = None
    """Where standard output and error go; `%j` stands for the job's id, `%%` for a percent sign."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to what the submitting process has in its own."""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: int | None = None
    tasks_per_node: int | None = None
    cores_per_node: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    memory_bytes: int | None = None
    walltime_s: float | None = None
    signal: str | None = None
    """Sent to the script before the limit comes, `USR1` for example."""
    signal_before_s: float = 60.0
    depends_on: tuple[str, ...] = ()
    """Ids of jobs that must have ended before this one starts."""
    only_after_success: bool = False
    """Those jobs must have completed; if one did not, this job is cancelled."""
    requeue: bool | None = None
    """Whether the cluster may start the job anew by itself, after the failure of a node for example."""
    comment: str = ""
    options: tuple[str, ...] = ()
    """More options of the cluster's own command for submitting, as they stand; kinds without one ignore them."""

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            expected = "1 to 100 letters, digits, dots, colons, dashes and underscores"
            raise UsageError(f"{self.key[:40]!r} cannot be the key of a submission", expected=expected)
        if not self.name.strip() or len(self.name) > MAX_NAME_CHARS:
            raise UsageError("The name of the job is too short or too long", expected="1 to 256 characters")
        if not self.script.startswith("#!"):
            raise UsageError("The script has no interpreter line", expected="a first line like #!/bin/bash")
        if self.signal is not None:
            check_signal(self.signal)
        self._check_texts()
        self._check_amounts()

    def _check_texts(self) -> None:
        for name in self.environment:
            if not _VARIABLE.fullmatch(name):
                expected = "letters, digits and underscores"
                raise UsageError(f"{name[:40]!r} cannot be a variable of the environment", expected=expected)
        texts = [
            *self.arguments,
            *self.options,
            *self.environment.values(),
            self.working_directory,
            self.output,
            self.comment,
        ]
        texts += [self.name, self.partition, self.account, self.qos, self.gpu_type]
        for text in (text for text in texts if text):
            _check_text(text, MAX_TEXT_BYTES)
        _check_text(self.script, MAX_SCRIPT_BYTES)

    def _check_amounts(self) -> None:
        counts = {
            "nodes": self.nodes,
            "tasks per node": self.tasks_per_node,
            "cores per node": self.cores_per_node,
            "bytes of memory": self.memory_bytes,
            "seconds of run time": self.walltime_s,
        }
        for what, count in counts.items():
            if count is not None and not 1 <= count < 2**63:
                raise UsageError(f"A job of {count} {what} is none", expected="at least 1")
        if not 0 <= (self.gpus_per_node or 0) < 2**31 or not 0 <= self.signal_before_s < 2**31:
            raise UsageError("Neither GPUs nor the time of a signal before the limit can be negative")


@dataclass(frozen=True)
class JobStatus:
    """What a cluster says of a job. Times are UTC; None is "not yet" or "not known"."""

    job_id: str
    state: Outcome
    key: str | None = None
    reason: str = ""
    """Why it waits, or how its end was recognised, in the cluster's words where it has some."""
    submit_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    """What ended it, if a signal did."""
    nodes: int | None = None
    partition: str | None = None
    walltime_s: float | None = None
    """Its limit; None also where there is none."""
    max_rss_bytes: int | None = None
    """The largest that was seen; of one process where the cluster knows no more."""
    memory_bytes: int | None = None
    """What it may have on each of its nodes."""

    @property
    def is_final(self) -> bool:
        """True if the state will not change any more."""
        return self.state not in ACTIVE


class Connector(ABC):
    """A cluster that takes jobs.

    Every method may raise a `presage.errors.ConnectorError`. After a ClusterTimeoutError or
    ClusterUnreachableError what was asked for may have been done or not: ask again, and after `submit` ask `find`
    first. A connector keeps nothing in memory that it could not find again: any number of them, in any number
    of processes, may look after the same jobs.
    """

    @abstractmethod
    def submit(self, submission: Submission) -> str:
        """Hand a job over and return its id. Raises ClusterRefusedError with the cluster's own words.

        Raises ClusterBusyError if the cluster takes no more for now, and it is certain that the job was not made.

        It does not look for an earlier job of the same key.
        """

    @abstractmethod
    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        """Return what is known of these jobs by id; jobs that the cluster does not know are left out.

        However many they are, the cluster is asked a number of times that does not grow with them.
        """

    @abstractmethod
    def cancel(self, job_ids: Collection[str]) -> None:
        """Have jobs ended or taken out of the queue, which may take a while. Unknown ones are no error."""

    @abstractmethod
    def find(self, key: str) -> str | None:
        """Return the id of the newest job that was submitted with this key, None if the cluster has none."""


class Discovers(ABC):
    """Knows what there is to run on."""

    @abstractmethod
    def discover(self, name: str | None = None) -> System:
        """Return the system as it is now, under `name` or the name it has for itself."""


class EstimatesStarts(ABC):
    """Has an opinion on when jobs start."""

    @abstractmethod
    def start_estimate(self, submission: Submission) -> datetime | None:
        """Return when the job would start if it were submitted now, without submitting it; None: no opinion."""

    @abstractmethod
    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        """Return when these waiting jobs are expected to start; those without an expectation are left out."""


class ReadsHistory(ABC):
    """Remembers jobs long after they ended."""

    @abstractmethod
    def history(self, since: datetime, user: str | None = None) -> Trace:
        """Return the jobs since then, of one user or of all that may be seen."""


class SignalsJobs(ABC):
    """Can tell a running job something."""

    @abstractmethod
    def signal(self, job_ids: Collection[str], name: str) -> None:
        """Send the signal called `name`, like USR1, to the scripts of these jobs. Unknown jobs are no error."""


class SharesFiles(ABC):  # noqa: B024  (nothing to do: it is a promise)
    """Has its jobs see the files of the machine that submits them, under the same names."""


class HoldsJobs(ABC):
    """Can keep waiting jobs from starting."""

    @abstractmethod
    def hold(self, job_ids: Collection[str]) -> None:
        """Keep these jobs from starting until they are released. Jobs that do not wait are no error."""

    @abstractmethod
    def release(self, job_ids: Collection[str]) -> None:
        """Let these jobs start again."""


class KeepsMessages(ABC):
    """Keeps what jobs tell of themselves, for whoever asks."""

    @abstractmethod
    def messages(self, job_id: str, after: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Return what a job told, the oldest first, and where to go on `after` the next time.

        A message is what a line of the file of events is, with a `sequence` that grows and is always the same. The
        cluster is asked once for every job: ask for few.
        """


def check_signal(name: str) -> None:
    """Raise UsageError for what is no name of a signal."""
    if f"SIG{name}" not in signal.Signals.__members__:
        raise UsageError(f"{name[:40]!r} is not the name of a signal", expected="a name like USR1")


def _check_text(text: str, most_bytes: int) -> None:
    problem = "has a NUL in it" if "\0" in text else ""
    try:
        if (size_bytes := len(os.fsencode(text))) > most_bytes:
            problem = f"is {size_bytes:,} bytes long"
    except UnicodeEncodeError:
        problem = "has half a character in it"
    if problem:
        raise UsageError(
            f"A text of the job that begins with {text[:20]!r} {problem}",
            expected=f"text of at most {most_bytes:,} bytes",
            remedy="Put it into a file and name that",
        )
