"""Event files of the UB Slurm simulator: one submission a line, with sbatch's own options.

    -dt 10.5 -e submit_batch_job | -sim-walltime 84805 --uid=user001 -J job1 -N 1 -n 32 -t 3-00:00:00 pseudo.job

`-dt` are seconds from the simulation's start, `-sim-walltime` is how long the job runs (negative: to its limit).
Nothing has been scheduled yet: no starts, no outcomes. Memory and GPUs are asked for per node, as sbatch takes
them, and become the whole job's; of an option that stands twice the last counts.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces.readers._base import LIKELY, NO, SURE, Reader
from presage.traces.readers._times import OWN_ZERO
from presage.traces.readers.slurm.texts import (
    parse_bytes,
    parse_dependency,
    parse_duration_s,
    parse_gres,
)
from presage.traces.schema import JOBS

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_SUBMIT = "submit_batch_job"
_EVENT = re.compile(r"^\s*-dt\s+\S+\s+-e\s+(\w+)\s*(?:\||$)")
_LONG = {
    "-A": "account", "-C": "constraint", "-G": "gpus", "-J": "job-name", "-N": "nodes", "-c": "cpus-per-task",
    "-d": "dependency", "-n": "ntasks", "-p": "partition", "-q": "qos", "-t": "time", "-dt": "dt", "-e": "event",
    "-jid": "jobid", "-sim-walltime": "sim-walltime",
}  # fmt: skip
"""Short options and the simulator's own → sbatch's long names."""
_FLAGS = {"--exclusive", "--hold", "-H", "--requeue", "--no-requeue", "--overcommit", "-O", "--contiguous"}
_MAX_S = 1e11
_MAX_LINE_CHARS = 100_000
_COLUMNS = pl.Schema({**JOBS, "x_exclusive": pl.Boolean()})


class SlurmSimReader(Reader):
    """Event files of the Slurm simulator."""

    format = "slurm-sim"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        if head.is_binary:
            return NO
        events = [match[1] for line in head.lines[:20] if (match := _EVENT.match(line))]
        if _SUBMIT in events:
            return SURE
        return LIKELY if events else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        jobs: list[dict[str, Any]] = []
        edges: list[tuple[str, str, str, float | None]] = []
        rows = 0
        for number, line in source.lines(into.rejecter(source.name)):
            if line.lstrip().startswith("#"):
                continue
            rows += 1
            try:
                job, waits_for = _job(line, number_of_job=len(jobs) + 1)
            except ValueError as problem:
                into.reject(source.name, number, str(problem), line)
                continue
            jobs.append(job)
            edges += [(job["job_id"], found.depends_on, found.kind, found.delay_s) for found in waits_for]
        into.describe(absolute_time=False)
        into.note(OWN_ZERO)
        into.note("these are submissions to a simulator: there are no starts and no outcomes yet")
        if jobs:
            into.add_jobs(pl.DataFrame(jobs, schema=_COLUMNS, orient="row"))
        if edges:
            into.add_edges(pl.DataFrame(edges, schema=["job_id", "depends_on", "kind", "delay_s"], orient="row"))
        return rows


def _job(line: str, number_of_job: int) -> tuple[dict[str, Any], list[Any]]:
    """Return the job of a submission and what it waits for. Raises ValueError with the reason if it is none."""
    options = _options(line)
    event = options.get("event")
    if event != _SUBMIT:
        raise ValueError(f"the event {event[:40]!r} submits no job" if event else "no event of the simulator")
    submit_s = _seconds(options, "dt")
    if submit_s is None:
        raise ValueError("no time of the event (-dt)")
    run_s = _seconds(options, "sim-walltime")
    limit_s = _duration(options, "time")
    tasks = _number(options, "ntasks")
    nodes = _number(options, "nodes")
    per_task = _number(options, "cpus-per-task") or 1
    cpus = (tasks or nodes or 1) * per_task
    gpus, gpu_type = _gpus(options, nodes or 1)
    job = {
        "job_id": options.get("jobid") or str(number_of_job),
        "name": options.get("job-name"),
        "user": options.get("uid"),
        "group": options.get("gid"),
        "account": options.get("account"),
        "partition": options.get("partition"),
        "qos": options.get("qos"),
        "submit_ms": round(submit_s * 1000),
        "run_s": limit_s if run_s is not None and run_s < 0 else run_s,
        "limit_s": limit_s,
        "cpus_req": float(cpus),
        "nodes_req": nodes,
        "tasks": tasks,
        "gpus_req": gpus,
        "gpu_type_req": gpu_type,
        "mem_req_bytes": _memory(options, nodes or 1, cpus),
        "constraint": options.get("constraint"),
        "x_exclusive": "exclusive" in options or None,
    }
    return job, parse_dependency(options.get("dependency", ""))


def _options(line: str) -> dict[str, str]:
    """Return the options of an event, the last of each, under their long names."""
    if len(line) > _MAX_LINE_CHARS:
        raise ValueError("the line is too long for an event")
    try:
        words = shlex.split(line) if re.search(r"['\"\\]", line) else line.split()
    except ValueError:
        raise ValueError("unbalanced quotes") from None
    options: dict[str, str] = {}
    place = 0
    while place < len(words):
        name, equals, value = words[place].partition("=")
        place += 1
        if not name.startswith("-"):
            continue
        long = _LONG.get(name, name.lstrip("-"))
        if name in _FLAGS or equals:
            options[long] = value
        elif place < len(words) and (name in _LONG or name.startswith("--")) and not words[place].startswith("--"):
            options[long] = words[place]
            place += 1
    return options


def _seconds(options: dict[str, str], name: str) -> float | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= _MAX_S:
        raise ValueError(f"{name}: {text[:40]!r} is not a number of seconds")
    return value


def _duration(options: dict[str, str], name: str) -> float | None:
    text = options.get(name)
    value = parse_duration_s(text) if text else None
    if text and value is None:
        raise ValueError(f"{name}: {text[:40]!r} is not a duration")
    return value if value is not None and value < _MAX_S else None


def _number(options: dict[str, str], name: str) -> int | None:
    """Return a count; of a range like `2-4` its beginning, which is what the job needs."""
    text = options.get(name)
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,9})(?:-\d{1,9})?", text)
    if not match:
        raise ValueError(f"{name}: {text[:40]!r} is not a number")
    return int(match[1])


def _memory(options: dict[str, str], nodes: int, cpus: int) -> int | None:
    for name, times in (("mem", nodes), ("mem-per-cpu", cpus)):
        text = options.get(name)
        if text:
            size_bytes = parse_bytes(text.upper().removesuffix("B"), unit="M")
            if size_bytes is None:
                raise ValueError(f"{name}: {text[:40]!r} is not an amount of memory")
            total = size_bytes * times
            return total if 0 < total < 2**63 else None
    return None


def _gpus(options: dict[str, str], nodes: int) -> tuple[float, str | None]:
    for name, times in (("gpus", 1), ("gpus-per-node", nodes), ("gres", nodes)):
        text = options.get(name)
        if text:
            found = parse_gres(text if name == "gres" else f"gpu:{text}")
            if found is None:
                raise ValueError(f"{name}: {text[:40]!r} names no resource")
            return found[0] * times, found[1]
    return 0.0, None
