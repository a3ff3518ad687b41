"""A trace as the model takes it in: what each job asked for, and when it started and ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.foundation.view._records import JOB, UNKNOWN_OUTCOME, View, new_view
from presage.traces.schema import Outcome
from presage.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.traces import Trace

OUTCOMES = (
    Outcome.COMPLETED,
    Outcome.FAILED,
    Outcome.CANCELLED,
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.NODE_FAILURE,
)
"""The ends that are told apart; other ends count as unknown."""
DEFAULT_LIMIT_S = 86_400.0
"""Stands for a limit where there is none; a flag says so."""
SIZE_STEPS = (1.5, 5.7, 22.7, 90.5, 362.1)
LIMIT_STEPS_S = (900.0, 3700.0, 14500.0, 43300.0, 86500.0)
CLASSES = (len(SIZE_STEPS) + 1) * (len(LIMIT_STEPS_S) + 1)
FRAGMENT = 3
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class JobHistory:
    """The jobs of one cluster in the order of their submits. Times are seconds from the first submit.

    `start_s` is infinite for jobs that were never seen to start, `end_s` for those never seen to end. A job that
    left the queue without having run has an end and no start.
    """

    facts: NDArray[np.void]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    outcome: NDArray[np.int32]
    job_ids: list[str]
    origin_ms: int
    size: float | None
    """Processors of the machine; None if unknown: the most ever in use stands for it then."""
    gpus: float | None
    users: int
    queues: int
    has_waits: bool = True
    """False: the log does not tell when jobs started."""
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def wait_s(self) -> NDArray[np.float64]:
        """How long each job waited; infinite if it was never seen to start."""
        return np.asarray(self.start_s - self.facts["submit_s"])

    @property
    def run_s(self) -> NDArray[np.float64]:
        """How long each job ran; infinite if it was never seen to end, NaN if it never started."""
        with np.errstate(invalid="ignore"):
            return self.end_s - self.start_s

    def view(self, room: int = 0) -> View:
        """Return an empty view that knows the requests of all jobs, with room for some more."""
        count = len(self)
        view = new_view(count + room, self.users, self.queues, self.queues * CLASSES)
        view.jobs[:count] = self.facts
        if self.size is not None:
            view.cluster["size"] = max(self.size, 1.0)
            view.cluster["size_is_known"] = 1
        if self.gpus:
            view.cluster["gpus"] = self.gpus
        return view

    def latest(self, count: int) -> JobHistory:
        """Return the last `count` jobs as a history of their own."""
        return self.select(np.arange(len(self))[-count:])

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> JobHistory:
        """Return some of the jobs."""
        ids = np.array(self.job_ids, dtype=object)[rows]
        return JobHistory(
            self.facts[rows], self.start_s[rows], self.end_s[rows], self.outcome[rows], list(ids),
            self.origin_ms, self.size, self.gpus, self.users, self.queues, self.has_waits, self.notes,
        )  # fmt: skip


def history_of(trace: Trace) -> JobHistory:
    """Return the jobs of a trace as a history.

    Jobs without a submit time are left out, and times that run backwards are bent to the nearest possible ones;
    the notes say how many. Raises InputError if no job is left.
    """
    has_waits = bool(
        trace.jobs.select((pl.col("start_ms").is_not_null() | pl.col("wait_s").is_not_null()).any()).item()
    )
    jobs = trace.jobs if has_waits else trace.jobs.with_columns(start_ms="submit_ms")
    jobs = jobs.filter(pl.col("submit_ms").is_not_null() & ~_is_lost())
    if not len(jobs):
        raise InputError("The trace has no job with a submit time", expected="at least one job")
    notes = []
    if len(jobs) < len(trace):
        lost = counted(len(trace) - len(jobs), "job")
        notes.append(f"{lost} without a submit time, or that ended nobody knows when, were left out")
    if not has_waits:
        notes.append("The log has no waits: each job counts as started when it was submitted")
    origin_ms = int(jobs["submit_ms"][0])
    submit_s = (jobs["submit_ms"] - origin_ms).to_numpy() / 1000.0
    start_s, end_s, bent = _lives(jobs, submit_s, origin_ms)
    if bent:
        notes.append(
            f"{counted(bent, 'job')} start before their submit or end before their start: taken as at once"
        )
    facts = np.zeros(len(jobs), JOB)
    facts["submit_s"] = submit_s
    users, queues = _write_identities(facts, jobs)
    _write_requests(facts, jobs, trace.manifest.machine.cpus)
    write_calendar(facts, jobs["submit_ms"].to_numpy() / 1000.0, absolute=trace.manifest.absolute_time)
    facts["outcome"] = UNKNOWN_OUTCOME
    return JobHistory(
        facts=facts, start_s=start_s, end_s=end_s, outcome=_outcomes(jobs), job_ids=jobs["job_id"].to_list(),
        origin_ms=origin_ms, size=trace.manifest.machine.cpus, gpus=trace.manifest.machine.gpus,
        users=users, queues=queues, has_waits=has_waits, notes=tuple(notes),
    )  # fmt: skip


def _is_lost() -> pl.Expr:
    """Return which jobs have ended, and neither a start nor an end tells when."""
    is_open = pl.col("outcome").is_in([Outcome.PENDING, Outcome.RUNNING]) | (
        pl.col("outcome").is_null() & pl.col("run_s").is_null()
    )
    no_time = pl.col("start_ms").is_null() & pl.col("wait_s").is_null() & pl.col("end_ms").is_null()
    return no_time & ~is_open.fill_null(value=False)


def _lives(
    jobs: pl.DataFrame, submit_s: NDArray[np.float64], origin_ms: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return starts and ends, and how many had to be bent."""
    # Of an unfinished job some logs tell a start or an end that is only expected.
    pending = (pl.col("outcome") == Outcome.PENDING).fill_null(value=False)
    unfinished = pl.col("outcome").is_in([Outcome.PENDING, Outcome.RUNNING]).fill_null(value=False)
    start = pl.coalesce(pl.col("start_ms"), pl.col("submit_ms") + _milliseconds("wait_s"))
    # Some logs write when a job that never ran left the queue where others write its start.
    left = (pl.col("outcome") == Outcome.CANCELLED) & pl.col("run_s").is_null() & pl.col("end_ms").is_null()
    left = left.fill_null(value=False)
    end = pl.coalesce(pl.col("end_ms"), pl.when(left).then(start), start + _milliseconds("run_s"))
    known = jobs.select(start=pl.when(~pending & ~left).then(start), end=pl.when(~unfinished).then(end))
    starts, ends = (_seconds(known[name], origin_ms) for name in ("start", "end"))
    early = starts < submit_s
    starts = np.where(early, submit_s, starts)
    earliest_end = np.where(np.isfinite(starts), starts, submit_s)
    too_early = ends < earliest_end
    return starts, np.where(too_early, earliest_end, ends), int((early | too_early).sum())


def _milliseconds(column: str) -> pl.Expr:
    return (pl.col(column) * 1000).cast(pl.Int64, strict=False)


def _seconds(column: pl.Series, origin_ms: int) -> NDArray[np.float64]:
    return ((column - origin_ms).cast(pl.Float64) / 1000.0).fill_null(np.inf).to_numpy().copy()


def _write_requests(facts: NDArray[np.void], jobs: pl.DataFrame, machine: float | None) -> None:
    wanted = jobs.select(
        size=pl.coalesce(
            pl.col("cpus_req", "cpus_alloc", "nodes_req", "nodes_alloc", "tasks").cast(pl.Float64), 1.0
        ),
        limit=pl.when(pl.col("limit_s") > 0).then("limit_s"),
        gpus=pl.coalesce("gpus_req", "gpus_alloc", 0.0),
        memory=pl.coalesce("mem_req_bytes", pl.lit(None, pl.Int64)).cast(pl.Float64),
    )
    size = np.maximum(wanted["size"].to_numpy(), 1e-3)
    facts["size"] = np.minimum(size, machine) if machine else size
    facts["has_limit"] = wanted["limit"].is_not_null().to_numpy()
    facts["limit_s"] = wanted["limit"].fill_null(DEFAULT_LIMIT_S).to_numpy()
    facts["gpus"] = np.maximum(wanted["gpus"].to_numpy(), 0.0)
    facts["has_memory"] = wanted["memory"].is_not_null().to_numpy()
    derive(facts, wanted["memory"].fill_null(0.0).clip(0).to_numpy())


def derive(facts: NDArray[np.void], memory_bytes: NDArray[np.float64]) -> None:
    """Write what follows from the requests of jobs and their queues: logarithms and classes."""
    facts["log_size"] = np.log1p(facts["size"])
    facts["log_limit"] = np.log1p(facts["limit_s"])
    facts["log_gpus"] = np.log1p(facts["gpus"])
    facts["log_memory"] = np.log1p(memory_bytes / MEBIBYTE / facts["size"])
    size = np.digitize(facts["size"], SIZE_STEPS)
    limit = np.digitize(facts["limit_s"], LIMIT_STEPS_S)
    facts["klass"] = facts["queue"] * CLASSES + size * (len(LIMIT_STEPS_S) + 1) + limit


def _write_identities(facts: NDArray[np.void], jobs: pl.DataFrame) -> tuple[int, int]:
    """Number users, queues, groups, programs and names; return how many users and queues there are."""
    keys = jobs.select(
        user=pl.col("user"),
        queue=_joined("queue", "partition", "qos", "gpu_type_req"),
        group=_joined("group", "account"),
        program=_joined("executable", "kind"),
        name=pl.col("name"),
    )
    counts = {}
    for key in keys.columns:
        codes = keys[key].fill_null("").cast(pl.Categorical).to_physical()
        facts[key] = codes.rank("dense").to_numpy() - 1
        counts[key] = int(facts[key].max()) + 1
    names = keys["name"].fill_null("").unique()
    bits = dict(zip(names, (signature(name) for name in names), strict=True))
    facts["name_bits"] = [bits[name] for name in keys["name"].fill_null("")]
    return counts["user"], counts["queue"]


def _joined(*columns: str) -> pl.Expr:
    return pl.concat_str(pl.col(*columns).fill_null(""), separator="\x1f")


def signature(text: str) -> int:
    """Return which fragments of three characters occur in a text, as a set of 64 bits; 0 for no text.

    Digits count as one and the same character: runs of one study often differ in a number alone.
    """
    plain = "".join("0" if letter.isdigit() else letter for letter in text.lower())
    bits = 0
    for place in range(max(len(plain) - FRAGMENT + 1, min(len(plain), 1))):
        bits |= 1 << (crc32(plain[place : place + FRAGMENT].encode(errors="replace")) & 63)
    return bits


def write_calendar(facts: NDArray[np.void], epoch_s: NDArray[np.float64], *, absolute: bool = True) -> None:
    """Write the hour of the day and whether it is a weekend; the latter only if times are real dates."""
    facts["hour"] = (epoch_s % 86400) / 3600
    weekday = (epoch_s // 86400 + 3) % 7  # the first of January 1970 was a Thursday
    facts["weekend"] = (weekday >= 5) & absolute


def _outcomes(jobs: pl.DataFrame) -> NDArray[np.int32]:
    codes = {outcome.value: code for code, outcome in enumerate(OUTCOMES)}
    column = jobs["outcome"].cast(pl.String).replace_strict(codes, default=UNKNOWN_OUTCOME, return_dtype=pl.Int32)
    return np.array(column.fill_null(UNKNOWN_OUTCOME).to_numpy(), np.int32)
