"""Which earlier jobs are the same thing run before, from the surest likeness to the weakest.

A job that Presage submitted carries a stamp in its comment (see `presage.estimators.scripts`). Sites that do not
keep comments keep the submit line, in which the comment stands. Jobs that were submitted without Presage are known
by that line, or by their name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.estimators._base import EstimateRequest, Knowledge, UnsupportedError
from presage.estimators.scripts import Stamp, find_stamp, stamp_of
from presage.estimators.workloads import ScriptWorkload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from presage.clusters.charges import Share
    from presage.traces import Trace

TEXTS = ("x_comment", "x_submitline")
RECENT = 200
"""Of more earlier runs than this the latest are taken: programs and data change."""
SAME_SIZE_AT_LEAST = 3
_NAMES_OF_ANYTHING = {"", "bash", "sh", "wrap", "interactive", "sbatch", "job", "test", "allocation", "python"}


class Likeness(StrEnum):
    """In what earlier jobs are the same."""

    COMMIT = "same script, arguments and commit"
    ARGUMENTS = "same script and arguments"
    SCRIPT = "same script"
    LINE = "same submit line"
    NAME = "same name"


def past_of(request: EstimateRequest, knowledge: Knowledge) -> tuple[ScriptWorkload, Trace]:
    """Return the script that is asked about and the jobs that are known. Raises UnsupportedError without them."""
    workload, trace = request.workload, knowledge.history
    if not isinstance(workload, ScriptWorkload):
        raise UnsupportedError("It knows batch scripts by their past, and this is the training of a network")
    if trace is None or not len(trace):
        raise UnsupportedError("No earlier jobs are known")
    return workload, trace


@dataclass(frozen=True)
class Match:
    """Earlier jobs, latest last, and what makes them count."""

    likeness: Likeness
    jobs: pl.DataFrame
    same_size: bool
    """They all have as many processors and GPUs as is asked for now."""


def matches(trace: Trace, workload: ScriptWorkload, share: Share | None = None) -> Iterator[Match]:
    """Yield the earlier jobs of each likeness that has any, the surest first; open jobs are among them.

    Where enough of them have the size that is asked for now, the others are left out.
    """
    jobs = trace.jobs
    # Names of files need not be Unicode; those of jobs in a trace are, so that nothing is lost here.
    texts = {key: getattr(workload, key).encode(errors="replace").decode() for key in ("user", "name", "commit")}
    workload = replace(workload, **texts)
    if workload.user:
        jobs = jobs.filter(pl.col("user").is_null() | (pl.col("user") == workload.user))
    for likeness, found in _alike(jobs, workload):
        if len(found):
            yield _of_size(likeness, found, share)


def earlier_like(trace: Trace, job: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs submitted before one, a row of the table, that have its stamp or else its name."""
    submit_ms, user, name = job.select("submit_ms", "user", "name").row(0)
    before = trace.jobs.filter((pl.col("submit_ms") < submit_ms) & (pl.col("user").eq_missing(user)))
    own = _stamps(job).row(0)
    if own[0] is not None:
        stamps = _stamps(before)
        same = before.filter(
            ((stamps["script"] == own[0]) & (stamps["arguments"] == own[1])).fill_null(value=False)
        )
        if len(same):
            return same.tail(RECENT)
    return before.filter(pl.col("name") == name).tail(RECENT)


def _alike(jobs: pl.DataFrame, workload: ScriptWorkload) -> Iterator[tuple[Likeness, pl.DataFrame]]:
    stamps = _stamps(jobs)
    if workload.digest:
        own = stamp_of(workload)
        same_script = (stamps["script"] == own.script).fill_null(value=False)
        same_call = same_script & (stamps["arguments"] == own.arguments)
        if own.commit:
            yield Likeness.COMMIT, jobs.filter(same_call & (stamps["commit"] == own.commit))
        yield Likeness.ARGUMENTS, jobs.filter(same_call)
        yield Likeness.SCRIPT, jobs.filter(same_script)
    unstamped = jobs.filter(stamps["script"].is_null())
    if "x_submitline" in jobs.columns:
        script = PurePath(workload.script).name
        lines = unstamped["x_submitline"].unique().drop_nulls().to_list()
        same = [line for line in lines if _runs(line, script, workload.arguments)]
        yield Likeness.LINE, unstamped.filter(pl.col("x_submitline").is_in(same))
    if workload.name.lower() not in _NAMES_OF_ANYTHING:
        yield Likeness.NAME, jobs.filter(pl.col("name") == workload.name)


def _stamps(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return script, arguments and commit of each job's stamp; null where it has none."""
    found: list[Stamp | None] = [None] * len(jobs)
    for column in TEXTS:
        if column in jobs.columns and jobs.schema[column] == pl.String:
            texts = jobs[column].to_list()
            found = [old or (find_stamp(text) if text else None) for old, text in zip(found, texts, strict=True)]
    rows: list[tuple[Any, ...]] = [
        (None, None, None) if each is None else (each.script, each.arguments, each.commit) for each in found
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(("script", "arguments", "commit"), pl.String), orient="row")


def _runs(line: str, script: str, arguments: Sequence[str]) -> bool:
    """Return whether a submit line, in which Slurm writes the words as they are, ends with this call."""
    call = " ".join((script, *arguments))
    return line.endswith((f" {call}", f"/{call}"))


def _of_size(likeness: Likeness, jobs: pl.DataFrame, share: Share | None) -> Match:
    if share is None:
        return Match(likeness, jobs.tail(RECENT), same_size=False)
    cpus = pl.coalesce("cpus_req", "cpus_alloc") == share.nodes * share.cores
    gpus = pl.coalesce("gpus_req", "gpus_alloc", 0.0) == share.nodes * share.gpus
    same = jobs.filter(cpus & gpus)
    if len(same) >= min(SAME_SIZE_AT_LEAST, len(jobs)):
        return Match(likeness, same.tail(RECENT), same_size=True)
    return Match(likeness, jobs.tail(RECENT), same_size=False)
