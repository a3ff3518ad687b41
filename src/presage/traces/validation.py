"""What is wrong, odd or missing in a trace, as findings that a person can act on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces.schema import size
from presage.traces.trace import place_of
from presage.wording import counted

if TYPE_CHECKING:
    from presage.traces.trace import Trace

EXAMPLES = 3


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """Cannot be true; a simulation or a model fed with it would be wrong."""
    WARNING = "warning"
    """Odd, but real logs do it; a cleaning rule deals with it."""
    INFO = "info"
    """Something the log does not say."""


@dataclass(frozen=True)
class Finding:
    """One kind of problem, with how often it occurs and the first jobs that have it."""

    check: str
    severity: Severity
    count: int
    message: str
    examples: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return asdict(self)


_JOB_CHECKS: tuple[tuple[str, Severity, pl.Expr, str], ...] = (
    (
        "start-before-submit",
        Severity.ERROR,
        pl.col("start_ms") < pl.col("submit_ms"),
        "started before the submission",
    ),
    ("end-before-start", Severity.ERROR, pl.col("end_ms") < pl.col("start_ms"), "ended before the start"),
    ("negative-run", Severity.ERROR, pl.col("run_s") < 0, "with a negative run time"),
    ("negative-wait", Severity.ERROR, pl.col("wait_s") < 0, "with a negative wait"),
    (
        "run-differs",
        Severity.WARNING,
        (pl.col("run_s") - (pl.col("end_ms") - pl.col("start_ms")) / 1000).abs() > 1.5,
        "with a run time that is not end - start",
    ),
    (
        "wait-differs",
        Severity.WARNING,
        (pl.col("wait_s") - (pl.col("start_ms") - pl.col("submit_ms")) / 1000).abs() > 1.5,
        "with a wait that is not start - submit",
    ),
    ("zero-run", Severity.WARNING, pl.col("run_s") == 0, "ran for zero seconds (rule drop-unrun)"),
    ("no-size", Severity.WARNING, size() <= 0, "without processors (rule drop-sizeless)"),
    ("overrun", Severity.WARNING, pl.col("run_s") > pl.col("limit_s"), "ran longer than requested"),
    (
        "no-submit",
        Severity.WARNING,
        pl.col("submit_ms").is_null(),
        "without a submit time (rule drop-unsubmitted)",
    ),
)


def validate(trace: Trace) -> list[Finding]:
    """Return all findings, errors first. An empty list means that nothing is even odd."""
    findings = [*_job_findings(trace), *_reference_findings(trace), *_missing_findings(trace)]
    rejected = len(trace.rejects)
    if rejected:
        lines = tuple(place_of(row) for row in trace.rejects.head(EXAMPLES).iter_rows(named=True))
        message = f"{counted(rejected, 'row')} could not be read"
        findings.append(Finding("rejected-rows", Severity.WARNING, rejected, message, lines))
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def _job_findings(trace: Trace) -> list[Finding]:
    checks = list(_JOB_CHECKS)
    cpus = trace.manifest.machine.cpus
    if cpus is not None:
        message = f"larger than the machine's {cpus:,g} processors (rule drop-oversized)"
        checks.append(("oversized", Severity.WARNING, size() > cpus, message))
    counts = trace.jobs.select(**{check: condition.sum() for check, _, condition, _ in checks}).row(0, named=True)
    return [
        Finding(
            check,
            severity,
            counts[check],
            f"{counted(counts[check], 'job')} {message}",
            _examples(trace, condition),
        )
        for check, severity, condition, message in checks
        if counts[check]
    ]


def _examples(trace: Trace, condition: pl.Expr) -> tuple[str, ...]:
    return tuple(trace.jobs.lazy().filter(condition).select("job_id").head(EXAMPLES).collect()["job_id"])


def _reference_findings(trace: Trace) -> list[Finding]:
    jobs = trace.jobs.select("job_id")
    findings = []
    for table, column in (("attempts", "job_id"), ("edges", "job_id"), ("edges", "depends_on")):
        strays = trace.table(table).join(jobs, left_on=column, right_on="job_id", how="anti")
        if len(strays):
            message = f"{counted(len(strays), 'row')} of {table} with a job in {column!r} that is not in the trace"
            # Logs are cut somewhere: a predecessor from before the cut is no mistake.
            severity = Severity.WARNING if column == "depends_on" else Severity.ERROR
            examples = tuple(strays[column].head(EXAMPLES))
            findings.append(Finding(f"stray-{table}", severity, len(strays), message, examples))
    return findings


def _missing_findings(trace: Trace) -> list[Finding]:
    lacks = [name.replace("_", " ") for name in _WANTED if not trace.manifest.has.get(name)]
    findings = []
    if lacks:
        findings.append(Finding("not-in-log", Severity.INFO, len(lacks), f"the log has no {', '.join(lacks)}"))
    if trace.manifest.machine.cpus is None and trace.manifest.machine.gpus is None:
        findings.append(
            Finding(
                "machine-unknown", Severity.INFO, 1, "the machine's size is not known: load cannot be computed"
            )
        )
    return findings


_WANTED = ("submits", "waits", "runs", "limits", "users", "outcomes")
