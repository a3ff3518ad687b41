"""Known anomalies put into a trace, and how many of them are found.

Every injector changes a few jobs of a real or generated trace so that one anomaly of its kind is there, and says
which jobs, whom and when it concerns. Jobs are touched once. Where a trace has nothing that the anomaly could
happen to (no node lists, no user with enough jobs), nothing is injected: `inject` returns only what is really
there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.foundation.anomalies._history import codes_of
from presage.foundation.anomalies._injectors import INJECTORS, Draft
from presage.traces.manifest import Machine
from presage.traces.schema import OUTCOME, Outcome, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from presage.foundation.anomalies._base import Anomaly
    from presage.foundation.anomalies.report import AnomalyReport
    from presage.traces import Trace

__all__ = ["Detection", "Injected", "evaluate", "furnish", "inject"]


@dataclass(frozen=True)
class Injected:
    """An anomaly that was put into a trace."""

    kind: str
    subject: str
    name: str
    start_ms: int
    end_ms: int
    job_ids: tuple[str, ...]


@dataclass(frozen=True)
class Detection:
    """How well the injected anomalies of one kind were found."""

    injected: int
    found: int
    """By a finding of the same kind."""
    found_as_any: int
    """By a finding of any kind that names one of their jobs."""
    alarms: int
    """All findings of the kind."""
    true_alarms: int
    """Those that are about an injected anomaly of any kind."""
    old_alarms: int
    """Those that the trace gave before anything was injected; whether they are true, nobody knows."""
    days: float

    @property
    def recall(self) -> float | None:
        """The share of the injected that was found; None if nothing was injected."""
        return self.found / self.injected if self.injected else None

    @property
    def precision(self) -> float | None:
        """The share of alarms that are about something injected; a lower bound on real traces."""
        return self.true_alarms / self.alarms if self.alarms else None

    @property
    def precision_of_new(self) -> float | None:
        """The share of true ones among the alarms that were not there before."""
        new = self.alarms - self.old_alarms
        return self.true_alarms / new if new else None

    @property
    def alarms_per_day(self) -> float:
        """Alarms of the kind per day of the trace."""
        return self.alarms / max(self.days, 1.0)


def inject(
    trace: Trace, *, kinds: Iterable[str] | None = None, count: int = 3, seed: int = 0
) -> tuple[Trace, list[Injected]]:
    """Return the trace with up to `count` anomalies of each kind, and what was injected."""
    draft = Draft(trace)
    done: list[Injected] = []
    for kind in kinds or INJECTORS:
        rng = np.random.default_rng([seed, *kind.encode()])
        for _ in range(count):
            made = INJECTORS[kind](draft, rng)
            if made is not None:
                subject, name, rows, start_ms, end_ms = made
                draft.taken[rows] = True
                ids = tuple(trace.jobs["job_id"].gather(rows).to_list())
                done.append(Injected(kind, subject, name, int(start_ms), int(end_ms), ids))
    return draft.trace(), done


def evaluate(
    report: AnomalyReport, injected: Sequence[Injected], before: AnomalyReport | None = None
) -> dict[str, Detection]:
    """Return the detection of each kind that was injected or found; `before` is the report without injections."""
    kinds = dict.fromkeys([each.kind for each in injected] + [finding.kind for finding in report.findings])
    truth = [frozenset(each.job_ids) for each in injected]
    evidence = [frozenset(finding.evidence) for finding in report.findings]
    hits = {
        (place, number)
        for place, finding in enumerate(report.findings)
        for number, each in enumerate(injected)
        if _about(finding, evidence[place], each, truth[number])
    }
    old = [
        any(_same(finding, earlier) for earlier in (before.findings if before else ()))
        for finding in report.findings
    ]
    result = {}
    for kind in kinds:
        own = [number for number, each in enumerate(injected) if each.kind == kind]
        alarms = [place for place, finding in enumerate(report.findings) if finding.kind == kind]
        true = {place for place, _ in hits}
        result[kind] = Detection(
            injected=len(own),
            found=sum(any((place, number) in hits for place in alarms) for number in own),
            found_as_any=sum(any(hit == number for _, hit in hits) for number in own),
            alarms=len(alarms),
            true_alarms=len(true.intersection(alarms)),
            old_alarms=sum(old[place] and place not in true for place in alarms),
            days=report.days,
        )
    return result


def furnish(trace: Trace, *, nodes: int, cpus_per_node: int, seed: int, nodes_per_rack: int = 16) -> Trace:
    """Return a generated trace with what workload models leave out, drawn with `seed`.

    That is nodes in racks with jobs on them; users who repeat themselves (jobs of one user and size take about
    the same time), fail at rates of their own, and use between half and all of their processors. Times of jobs
    that have started follow from their new run times.
    """
    rng = np.random.default_rng(seed)
    racks, places = np.divmod(np.arange(nodes), nodes_per_rack)
    names = np.array([f"r{rack:03d}n{place:02d}" for rack, place in zip(racks, places, strict=True)])
    jobs = trace.jobs.with_columns(_size=size().fill_null(1.0))
    cpus, count = jobs["_size"].to_numpy(), len(jobs)
    wanted = np.minimum(np.ceil(cpus / cpus_per_node), nodes).astype(np.int64)
    first = rng.integers(0, nodes, count)
    lists = [names[(begin + np.arange(each)) % nodes].tolist() for begin, each in zip(first, wanted, strict=True)]
    users, kinds = codes_of(jobs, "user"), codes_of(jobs, "user", "_size")
    failed = rng.random(count) < rng.beta(1, 15, users.max(initial=0) + 1)[users]
    typical = np.full(kinds.max(initial=0) + 1, 1.0)
    typical[kinds[::-1]] = jobs["run_s"].fill_null(60.0).to_numpy()[::-1]
    run_s = np.maximum(typical[kinds] * np.exp(rng.normal(0, 0.3, count)), 1.0).round()
    furnished = jobs.drop("_size").with_columns(
        pl.Series("node_list", lists, dtype=pl.List(pl.String)),
        pl.Series("run_s", run_s),
        pl.Series("cpu_used_s", run_s * cpus * rng.uniform(0.5, 1, count)),
        pl.Series("outcome", np.where(failed, Outcome.FAILED.value, Outcome.COMPLETED.value), dtype=OUTCOME),
        end_ms=pl.col("start_ms") + pl.Series(run_s * 1000).cast(pl.Int64),
        limit_s=pl.max_horizontal(pl.col("limit_s"), pl.Series(run_s * 1.2)),
    )
    table = pl.DataFrame(
        {"node_id": names, "rack": [f"r{rack:03d}" for rack in racks], "cpus": [float(cpus_per_node)] * nodes}
    )
    manifest = replace(trace.manifest, machine=Machine(nodes=nodes, cpus=float(nodes * cpus_per_node)))
    return type(trace).create(furnished, manifest, nodes=table)


def _about(finding: Anomaly, evidence: frozenset[str], each: Injected, ids: frozenset[str]) -> bool:
    if finding.start_ms > each.end_ms or finding.end_ms < each.start_ms:
        return False
    named = (finding.subject, finding.name) == (each.subject, each.name) and finding.kind == each.kind
    return named or bool(evidence & ids)


def _same(finding: Anomaly, other: Anomaly) -> bool:
    alike = (finding.kind, finding.subject, finding.name) == (other.kind, other.subject, other.name)
    return alike and finding.start_ms <= other.end_ms and other.start_ms <= finding.end_ms
