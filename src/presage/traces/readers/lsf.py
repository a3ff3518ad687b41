"""LSF's accounting file `lsb.acct`: one record per line, fields separated by blanks, texts in double quotes.

Only JOB_FINISH records are jobs; others are counted. Fields are told by their place, and two lists of hosts make
records differ in length. LSF writes 0 for times and numbers that are not known, -1 for resource usage, and a host
once per slot or as `4*host`. What follows the job description differs between versions, so the run limit, which
stands there, is not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import BATCH_ROWS, Cells, records
from presage.traces.readers._spans import with_spans
from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_KINDS = ("JOB_FINISH", "JOB_RESIZE", "EVENT_ADRSV_FINISH")
_TOKEN = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_SLOTS = re.compile(r"^(\d{1,6})\*(.+)$")
_HEAD = (
    "kind", "version", "end", "job", "uid", "options", "cpus", "submit", "begin", "term", "start", "user", "queue",
    "res_req", "depend", "pre_exec", "from_host", "cwd", "in_file", "out_file", "err_file", "job_file",
)  # fmt: skip
_TAIL = (
    "status", "host_factor", "name", "command", "utime", "stime", *(f"ru_{i}" for i in range(17)), "mail_user",
    "project", "exit_status", "max_cpus", "shell", "time_event", "index", "max_rss_kb", "max_swap_kb", "in_spool",
    "command_spool", "reservation", "sla", "except_mask", "additional_info", "exit_info", "warning_action",
    "warning_s", "saap", "licence_project", "app",
)  # fmt: skip
_KEPT = {
    "end", "job", "cpus", "submit", "begin", "term", "start", "user", "queue", "res_req", "from_host", "status",
    "name", "command", "utime", "stime", "project", "exit_status", "index", "max_rss_kb", "sla", "exit_info",
    "app",
}  # fmt: skip
_STATUS = {"64": Outcome.COMPLETED, "32": Outcome.FAILED}
_REASONS = {
    "1": Outcome.PREEMPTED,
    "5": Outcome.TIMEOUT, "6": Outcome.TIMEOUT, "12": Outcome.TIMEOUT,  # run limit, deadline, CPU limit
    "16": Outcome.OUT_OF_MEMORY, "20": Outcome.OUT_OF_MEMORY,  # memory limit, swap limit
    "8": Outcome.CANCELLED, "14": Outcome.CANCELLED, "23": Outcome.CANCELLED,  # by its owner
    "9": Outcome.CANCELLED, "15": Outcome.CANCELLED,  # by an administrator
}  # fmt: skip
"""Why LSF ended a job, as `bacct` names it."""


class LsfReader(Reader):
    """The accounting file of LSF."""

    format = "lsf"
    scheduler = "lsf"

    def match(self, head: Head) -> int:
        return SURE if head.text.startswith(tuple(f'"{kind}" "' for kind in _KINDS)) else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        batch: list[tuple[int, dict[str, str]]] = []
        rows = 0
        for number, line in source.lines(into.rejecter(source.name)):
            rows += 1
            try:
                record = _record(line)
            except ValueError as error:
                into.reject(source.name, number, str(error), line)
                continue
            if record is None:
                into.count(records_that_are_no_jobs=1)
                continue
            batch.append((number, record))
            if len(batch) >= BATCH_ROWS:
                _pour(records(batch, source, into), into)
                batch = []
        if batch:
            _pour(records(batch, source, into), into)
        return rows


def _record(line: str) -> dict[str, str] | None:
    """Return the fields of a JOB_FINISH record that are kept, None for another record.

    Raises ValueError with the reason if the line is no record at all or ends too early.
    """
    tokens = [quoted.replace('""', '"') if quoted else bare for quoted, bare in _TOKEN.findall(line)]
    if not tokens or tokens[0] not in _KINDS:
        raise ValueError("not a record of lsb.acct")
    if tokens[0] != "JOB_FINISH":
        return None
    at = len(_HEAD)
    _, at = _hosts(tokens, at, "asked hosts")
    hosts, at = _hosts(tokens, at, "execution hosts")
    tail = tokens[at : at + len(_TAIL)]
    if len(tail) < len(_TAIL):
        raise ValueError(f"the record ends after {len(tokens)} fields, before its {_TAIL[len(tail)]}")
    fields = {**dict(zip(_HEAD, tokens, strict=False)), **dict(zip(_TAIL, tail, strict=True))}
    kept = {name: text for name, text in fields.items() if name in _KEPT}
    return {**kept, **_slots(hosts)}


def _hosts(tokens: list[str], at: int, what: str) -> tuple[list[str], int]:
    """Return the list of hosts whose length stands at `at`, and the place behind it."""
    count = tokens[at] if at < len(tokens) else ""
    if not count.isdecimal() or int(count) > len(tokens):
        raise ValueError(f"the number of {what} is {count!r}, not a number that fits the record")
    behind = at + 1 + int(count)
    return tokens[at + 1 : behind], behind


def _slots(hosts: list[str]) -> dict[str, str]:
    """Return the number of slots and the distinct hosts of a list that names a host per slot, or `4*host`."""
    slots = 0
    names: dict[str, None] = {}
    for host in hosts:
        match = _SLOTS.match(host)
        slots += int(match[1]) if match else 1
        names[match[2] if match else host] = None
    return {"slots": str(slots), "hosts": " ".join(names), "host_count": str(len(names))} if names else {}


def _pour(cells: Cells, into: TraceBuilder) -> None:
    index = cells.integer("index")
    job = cells.required("job")
    exit_status = cells.integer("exit_status")
    signal = exit_status % 128
    rss = cells.bytes("max_rss_kb", unit=1024)
    jobs = cells.frame(
        job_id=pl.when(index > 0).then(pl.format("{}[{}]", job, index)).otherwise(job),
        array_id=pl.when(index > 0).then(job),
        array_task=pl.when(index > 0).then(index),
        name=cells.text("name"),
        executable=cells.text("command"),
        user=cells.text("user"),
        account=cells.text("project"),
        queue=cells.text("queue"),
        qos=cells.text("sla"),
        submit_ms=_time(cells, "submit"),
        eligible_ms=_time(cells, "begin"),
        start_ms=_time(cells, "start"),
        end_ms=_time(cells, "end"),
        deadline_ms=_time(cells, "term"),
        cpus_req=cells.count("cpus"),
        constraint=cells.text("res_req"),
        cpus_alloc=cells.count("slots"),
        nodes_alloc=cells.integer("host_count"),
        node_list=cells.text("hosts").str.split(" "),
        cpu_used_s=_used(cells, "utime") + _used(cells, "stime"),
        mem_used_bytes=pl.when(rss > 0).then(rss),
        exit_code=exit_status // 256,
        signal=pl.when(signal > 0).then(signal),
        status=cells.text("status"),
        outcome=_outcome(cells),
        x_app=cells.text("app"),
        x_from_host=cells.text("from_host"),
        x_exit_info=cells.text("exit_info"),
    )
    into.add_jobs(with_spans(jobs, into))


def _time(cells: Cells, column: str) -> pl.Expr:
    value = cells.epoch_ms(column)
    return pl.when(value > 0).then(value)


def _used(cells: Cells, column: str) -> pl.Expr:
    value = cells.number(column)
    return pl.when(value >= 0).then(value)


def _outcome(cells: Cells) -> pl.Expr:
    """The outcome by the status, or, if the job did not end well, by the reason that LSF had."""
    by_status = cells.outcome("status", _STATUS)
    by_reason = cells.outcome("exit_info", _REASONS)
    failed = by_status == pl.lit(Outcome.FAILED.value, OUTCOME)
    return pl.when(failed).then(pl.coalesce(by_reason, by_status)).otherwise(by_status)
