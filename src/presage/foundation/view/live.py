"""A cluster as it is now: told what happens, event by event, and asked about jobs in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UsageError
from presage.foundation.view import _events, numbers
from presage.foundation.view._query import ask, remember_submit
from presage.foundation.view._records import AHEAD, JOB, RUNNING, UNKNOWN_OUTCOME, WAITING, new_view
from presage.foundation.view._tokens import fill_tokens
from presage.foundation.view.jobs import CLASSES, DEFAULT_LIMIT_S, OUTCOMES, derive, signature, write_calendar
from presage.foundation.view.seen import ANCHOR, Seen
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.traces.schema import Outcome

FIRST_ROOM = 1024
SMALLEST_SIZE = 1e-3
IDENTITIES = ("user", "queue", "group", "program", "name")


@dataclass(frozen=True)
class JobRequest:
    """What is known of a job before it starts. Only `job_id` must be given."""

    job_id: str
    user: str = ""
    cpus: float = 1.0
    limit_s: float | None = None
    queue: str = ""
    group: str = ""
    program: str = ""
    name: str = ""
    gpus: float = 0.0
    memory_bytes: float | None = None


class LiveCluster:
    """What has happened on a cluster so far. Times are seconds of the epoch and never run backwards.

    An event that comes with an earlier time than the one before counts as if it happened just then.
    """

    def __init__(self, *, processors: float | None = None, gpus: float | None = None) -> None:
        self._view = new_view(FIRST_ROOM, 64, 16, 16 * CLASSES)
        if processors is not None:
            self._view.cluster["size"] = max(processors, 1.0)
            self._view.cluster["size_is_known"] = 1
        if gpus:
            self._view.cluster["gpus"] = gpus
        self._rows: dict[str, int] = {}
        self._numbers: dict[str, dict[str, int]] = {kind: {} for kind in IDENTITIES}
        self._now_s = 0.0
        self._origin_s: float | None = None
        self._x = np.zeros((1, len(numbers.QUERY)), np.float32)
        self._waits = np.full((1, numbers.WAIT_CONTEXT), -1, np.int32)
        self._runs = np.full((1, numbers.RUN_CONTEXT), -1, np.int32)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def now_s(self) -> float:
        """The time of the latest event or question, in seconds of the epoch."""
        return self._now_s + (self._origin_s or 0.0)

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return int(self._view.cluster[0]["waiting"])

    @property
    def running(self) -> int:
        """How many jobs run."""
        return int(self._view.cluster[0]["running"])

    def submit(self, request: JobRequest, time_s: float) -> dict[Task, Seen]:
        """Put a job into the queue, and return what the model sees of it at that moment.

        Raises UsageError if there is a job of that id already.
        """
        if request.job_id in self._rows:
            raise UsageError(f"The job {request.job_id!r} was submitted before", expected="a new id")
        now_s = self._advance(time_s)
        row = self._write(request, now_s)
        self._ask(row, now_s)
        seen = {task: self._seen(row, now_s, AHEAD, task) for task in Task}
        remember_submit(self._view, self._x[0])
        _events.submit(self._view, row)
        self._rows[request.job_id] = row
        return seen

    def start(self, job_id: str, time_s: float) -> None:
        """Tell that a waiting job starts; of others nothing changes. Raises UsageError for an unknown job."""
        row = self._row(job_id)
        _events.start(self._view, row, self._advance(time_s))

    def end(self, job_id: str, time_s: float, outcome: Outcome | None = None) -> None:
        """Tell that a job ends, or leaves the queue without having run. Raises UsageError for an unknown job."""
        row = self._row(job_id)
        code = OUTCOMES.index(outcome) if outcome in OUTCOMES else UNKNOWN_OUTCOME
        _events.end(self._view, row, self._advance(time_s), code)

    def see(self, about: JobRequest | str, time_s: float | None = None) -> dict[Task, Seen]:
        """Return what the model sees of a known job as it stands now, or of one that might be submitted now.

        Of a running job only the run time is a question, of any other both durations are. Raises UsageError for
        an unknown job and for one that has ended.
        """
        now_s = self._advance(time_s) if time_s is not None else self._now_s
        row = self._row(about) if isinstance(about, str) else self._write(about, now_s)
        stands = int(self._view.jobs["stands"][row])
        if stands not in (AHEAD, WAITING, RUNNING):
            raise UsageError(f"The job {about!r} has ended", expected="a job that waits, runs or is new")
        self._ask(row, now_s)
        tasks = (Task.RUN,) if stands == RUNNING else (Task.WAIT, Task.RUN)
        return {task: self._seen(row, now_s, stands, task) for task in tasks}

    def _seen(self, row: int, now_s: float, stands: int, task: Task) -> Seen:
        job = self._view.jobs[row]
        since_s = {(Task.WAIT, WAITING): job["submit_s"], (Task.RUN, RUNNING): job["start_s"]}.get(
            (task, stands), now_s
        )
        context = self._waits if task is Task.WAIT else self._runs
        length = context.shape[1]
        tokens = np.empty((1, length, len(numbers.TOKEN)), np.float32)
        outcomes, ends = np.empty((1, length), np.float32), np.empty((1, length), np.int32)
        fill_tokens(
            self._view.jobs, row, now_s, self._x[0], context[0], task is Task.WAIT, tokens[0], outcomes[0], ends[0]
        )
        x = self._x[:, : task.numbers]
        return Seen(task, x, x[:, ANCHOR[task]], tokens, context >= 0, outcomes, ends, np.array([now_s - since_s]))

    def _ask(self, row: int, now_s: float) -> None:
        self._x = np.zeros((1, len(numbers.QUERY)), np.float32)
        ask(self._view, row, now_s, self._x[0], self._waits[0], self._runs[0])

    def _write(self, request: JobRequest, now_s: float) -> int:
        """Write a request into the next free row of the table of jobs, which it may leave again."""
        row = len(self._rows)
        coded = {kind: self._number(kind, getattr(request, kind)) for kind in IDENTITIES}
        self._make_room(row + 1)
        facts = self._view.jobs[row : row + 1]
        facts[:] = np.zeros(1, JOB)
        facts["submit_s"] = now_s
        facts["outcome"] = UNKNOWN_OUTCOME
        facts["size"] = max(request.cpus, SMALLEST_SIZE)
        facts["has_limit"] = bool(request.limit_s)
        facts["limit_s"] = request.limit_s or DEFAULT_LIMIT_S
        facts["gpus"] = max(request.gpus, 0.0)
        facts["has_memory"] = request.memory_bytes is not None
        facts["name_bits"] = signature(request.name)
        for kind, code in coded.items():
            facts[kind] = code
        derive(facts, np.array([request.memory_bytes or 0.0]))
        write_calendar(facts, np.array([now_s + (self._origin_s or 0.0)]))
        return row

    def _number(self, kind: str, text: str) -> int:
        known = self._numbers[kind]
        return known.setdefault(text, len(known))

    def _make_room(self, jobs: int) -> None:
        users, queues = len(self._numbers["user"]), len(self._numbers["queue"])
        view = self._view
        if jobs <= len(view.jobs) and users <= len(view.users) and queues <= len(view.queues):
            return
        queues = max(len(view.queues), 2 * queues)
        larger = new_view(max(len(view.jobs), 2 * jobs), max(len(view.users), 2 * users), queues, queues * CLASSES)
        for old, new in zip(view, larger, strict=True):
            new[: len(old)] = old
        self._view = larger

    def _row(self, job_id: str) -> int:
        try:
            return self._rows[job_id]
        except KeyError:
            raise UsageError(f"No job {job_id!r} was submitted", expected="the id of a known job") from None

    def _advance(self, time_s: float) -> float:
        if self._origin_s is None:
            self._origin_s = time_s
        self._now_s = max(self._now_s, time_s - self._origin_s)
        return self._now_s
