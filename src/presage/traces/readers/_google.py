"""From the events of Google's cluster traces to stretches of running, and from those to jobs.

A stretch is what happens to a job or a task between one submission and the next: queued, perhaps started,
perhaps ended. Events frames have the columns `time` (microseconds), `job`, `event` (a code) and, for tasks,
`task`, `machine` and what `Codes` need not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUEUED, RUNNING, ENDED = 0, 1, 2
NORMALISED = (
    "CPU and memory requests are fractions of an undisclosed machine, summed over tasks; no bytes are known"
)
_AFTER_THE_END_US = 2**63 - 1
_STANDING = {QUEUED: Outcome.PENDING.value, RUNNING: Outcome.RUNNING.value}
_OF_THE_JOB = {"user", "qos", "priority", "constraint", "kind", "alloc"}  # the same in all tasks of a job
_WORST_FIRST = (Outcome.FAILED, Outcome.CANCELLED, Outcome.PREEMPTED)


@dataclass(frozen=True)
class Codes:
    """What the event codes of one edition mean."""

    words: Mapping[int, str]
    phases: Mapping[int, int]
    outcomes: Mapping[int, Outcome]
    submit: int
    schedule: int

    def outcome(self, code: str, phase: str) -> pl.Expr:
        """The outcome of a stretch that ended with `code`, or that stands in `phase`."""
        ended = {number: outcome.value for number, outcome in self.outcomes.items()}
        return pl.coalesce(
            pl.col(code).replace_strict(ended, default=None, return_dtype=OUTCOME),
            pl.col(phase).replace_strict(_STANDING, default=None, return_dtype=OUTCOME),
        )

    def word(self, code: str) -> pl.Expr:
        """The name of an event."""
        return pl.col(code).replace_strict(self.words, default=None, return_dtype=pl.String)


def stretches(events: pl.DataFrame, keys: Sequence[str], codes: Codes) -> pl.DataFrame:
    """Return one row per stretch, ordered by `keys` and time.

    It has the keys, `queued`, `start` and `end` in microseconds (null if not seen, or out of the trace), the
    `code` that ended it, its last `phase`, and the last known value of every other column of `events`.
    """
    ordered = events.sort(*keys, "time", maintain_order=True).with_columns(
        phase=pl.col("event").replace_strict(codes.phases, return_dtype=pl.Int8)
    )
    same = pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in keys).fill_null(False)
    before = pl.when(same).then(pl.col("phase").shift(1))
    event, phase = pl.col("event"), pl.col("phase")
    begins = (
        before.is_null()
        | (event == codes.submit)
        | ((event == codes.schedule) & (before != QUEUED))
        | (before == ENDED)
    )
    known = pl.when(pl.col("time").is_between(1, _AFTER_THE_END_US - 1)).then("time")
    others = [name for name in events.columns if name not in {*keys, "time", "event"}]
    return (
        ordered.with_columns(
            stretch=begins.cum_sum(),
            queued=pl.when(event == codes.submit).then(known),
            start=pl.when(event == codes.schedule).then(known),
            end=pl.when(phase == ENDED).then(known),
            code=pl.when(phase == ENDED).then(event),
        )
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col(*keys).first(),
            pl.col("queued", "start", "end", "code").max(),
            pl.col("phase").last(),
            pl.col(others).drop_nulls().last(),
        )
        .drop("stretch")
    )


def times() -> dict[str, pl.Expr]:
    """Return the canonical times and durations of `queued`, `start` and `end` in microseconds."""
    return {
        "submit_ms": pl.col("queued") // 1000,
        "start_ms": pl.col("start") // 1000,
        "end_ms": pl.col("end") // 1000,
        "wait_s": (pl.col("start") - pl.col("queued")) / 1e6,
        "run_s": (pl.col("end") - pl.col("start")) / 1e6,
    }


def attempts(runs: pl.DataFrame, codes: Codes, task: str | None) -> pl.DataFrame:
    """Return the attempts table of stretches that ran; without `task` they are of jobs as wholes."""
    over = ["job", task] if task else ["job"]
    return runs.select(
        job_id=pl.col("job").cast(pl.String),
        task=pl.col(task) if task else pl.lit(None, pl.Int64),
        attempt=pl.int_range(pl.len()).over(over),
        queued_ms=pl.col("queued") // 1000,
        start_ms=pl.col("start") // 1000,
        end_ms=pl.col("end") // 1000,
        outcome=codes.outcome("code", "phase"),
        status=codes.word("code"),
        **({"node_list": _one_node("machine"), "cpus": pl.col("cpus")} if task else {}),
    )


def gangs(events: pl.DataFrame, tasks: pl.DataFrame, codes: Codes) -> pl.DataFrame:
    """Return one row per job: what its tasks' stretches add up to.

    Submit and start are known if the first event of the job is a submission, the end if all its tasks ended.
    """
    first = (
        events.sort("time", maintain_order=True).group_by("job", maintain_order=True).agg(pl.col("event").first())
    )
    last = tasks.group_by("job", "task", maintain_order=True).last()
    last = last.with_columns(final=codes.outcome("code", "phase").cast(pl.String))
    sums = last.group_by("job").agg(
        tasks=pl.len().cast(pl.Int64),
        cpus_req=_sum("cpus"),
        memory=_sum("memory"),
        outcome=_outcome_of_all().cast(OUTCOME),
        ended=(pl.col("phase") == ENDED).all(),
        **{name: pl.col(name).drop_nulls().first() for name in last.columns if name in _OF_THE_JOB},
    )
    spans = tasks.group_by("job").agg(
        queued=pl.col("queued").min(),
        start=pl.col("start").min(),
        end=pl.col("end").max(),
        node_list=pl.col("machine").drop_nulls().unique(maintain_order=True),
    )
    whole = pl.col("event") == codes.submit
    return (
        first.join(sums, on="job", how="left", maintain_order="left")
        .join(spans, on="job", how="left", maintain_order="left")
        .with_columns(
            pl.when(whole).then(pl.col("queued", "start")),
            pl.when("ended").then("end"),
            pl.when(pl.col("node_list").list.len() > 0).then("node_list"),
        )
    )


def _outcome_of_all() -> pl.Expr:
    """The outcome of a job by the phases and the `final` outcomes of its tasks."""

    def some(outcome: Outcome) -> pl.Expr:
        return pl.when((pl.col("final") == outcome.value).any()).then(pl.lit(outcome.value))

    completed = (pl.col("final") == Outcome.COMPLETED.value).fill_null(False).all()
    all_ended = pl.coalesce(
        *(some(outcome) for outcome in _WORST_FIRST), pl.when(completed).then(pl.lit(Outcome.COMPLETED.value))
    )
    return (
        pl.when((pl.col("phase") == ENDED).all())
        .then(all_ended)
        .when((pl.col("phase") == RUNNING).any())
        .then(pl.lit(Outcome.RUNNING.value))
        .otherwise(pl.lit(Outcome.PENDING.value))
    )


def _one_node(column: str) -> pl.Expr:
    return pl.when(pl.col(column).is_not_null()).then(pl.concat_list(column))


def _sum(column: str) -> pl.Expr:
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum())
