"""Cleaning of traces by named rules, each recorded in the manifest with what it did.

A rule is data: which jobs it keeps, which columns it sets; one that reaches further has a function for it.
`clean(trace, ["archive"])` applies a rule set, `clean(trace, ["drop-unrun", "sort-by-submit"])` single rules, in
the order given. Other packages add rules through the entry-point group `presage.cleaning`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import UnknownNameError
from presage.registry import Registry, Spec
from presage.traces.anonymisation import anonymised
from presage.traces.manifest import CleaningStep
from presage.traces.schema import Outcome, size
from presage.traces.trace import sort_by_submit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from presage.traces.manifest import Manifest
    from presage.traces.trace import Trace


@dataclass(frozen=True)
class Rule:
    """One cleaning rule: `keep` gives the jobs to keep, `assign` the columns to set, `whole` the trace anew.

    A job for which `keep` is null is dropped; a `keep` that returns None, because the manifest does not tell
    enough to decide, drops nothing. `whole` is for rules that reach beyond the job table; it must keep the jobs
    in number and order. All see the trace as the rules before left it. Applying a rule twice is the same as
    applying it once.
    """

    keep: Callable[[Manifest], pl.Expr | None] | None = None
    assign: Mapping[str, pl.Expr] = field(default_factory=dict)
    by_submit: bool = False
    """Order the jobs by submit time, ties as they stand."""
    whole: Callable[[Trace], Trace] | None = None

    def apply(self, trace: Trace) -> tuple[Trace, int, int]:
        """Return the cleaned trace, how many jobs were dropped, and how many of the others were changed."""
        jobs = trace.jobs
        condition = self.keep(trace.manifest) if self.keep else None
        if condition is not None:
            jobs = jobs.filter(condition)
        changed = 0
        if self.assign:
            differs = [value.ne_missing(pl.col(column)) for column, value in self.assign.items()]
            changed = int(jobs.select(pl.any_horizontal(differs).sum()).item())
            jobs = jobs.with_columns(**self.assign)
        if self.by_submit:
            jobs = sort_by_submit(jobs)
        dropped = len(trace) - len(jobs)
        cleaned = trace.with_jobs(jobs) if dropped else replace(trace, jobs=jobs).described()
        if self.whole:
            cleaned = self.whole(cleaned)
            changed += _changed(jobs, cleaned.jobs)
        return cleaned, dropped, changed


def _changed(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """Return how many rows differ; a column that is gone counts where it held something."""
    differs = [
        before[name].ne_missing(after[name]) if name in after.columns else before[name].is_not_null()
        for name in before.columns
    ]
    return int(pl.DataFrame(differs).select(pl.any_horizontal(pl.all()).sum()).item()) if differs else 0


def _within_machine(manifest: Manifest) -> pl.Expr | None:
    cpus = manifest.machine.cpus
    return size() <= cpus if cpus is not None else None


DROP_UNRUN = Rule(keep=lambda _: pl.col("run_s") > 0)
DROP_SIZELESS = Rule(keep=lambda _: size() > 0)
DROP_OVERSIZED = Rule(keep=_within_machine)
DROP_UNSUBMITTED = Rule(keep=lambda _: pl.col("submit_ms").is_not_null())
DROP_UNFINISHED = Rule(
    keep=lambda _: ~pl.col("outcome").is_in([Outcome.RUNNING.value, Outcome.PENDING.value]).fill_null(value=False)
)
SIZE_FROM_LARGER = Rule(assign={"cpus_alloc": size()})
LIMIT_FROM_RUN = Rule(assign={"limit_s": pl.when(pl.col("limit_s") > 0).then("limit_s").otherwise("run_s")})
LIMIT_COVERS_RUN = Rule(assign={"limit_s": pl.max_horizontal("limit_s", "run_s")})
_REQUESTED_S = pl.when(pl.col("limit_s") > 0).then("limit_s")  # a request of zero is none
RUN_WITHIN_LIMIT = Rule(
    assign={
        "run_s": pl.min_horizontal("run_s", _REQUESTED_S),
        "end_ms": pl.min_horizontal("end_ms", pl.col("start_ms") + (_REQUESTED_S * 1000).round().cast(pl.Int64)),
    }
)
ANONYMISE = Rule(whole=anonymised)
SORT_BY_SUBMIT = Rule(by_submit=True)

_HERE = "presage.traces.cleaning"

RULES: Registry[Rule] = Registry(
    "cleaning rule",
    "presage.cleaning",
    [
        Spec("drop-unrun", f"{_HERE}:DROP_UNRUN", "drop jobs whose run time is zero or unknown"),
        Spec("drop-sizeless", f"{_HERE}:DROP_SIZELESS", "drop jobs with no processors, allocated or requested"),
        Spec(
            "drop-oversized",
            f"{_HERE}:DROP_OVERSIZED",
            "drop jobs larger than the machine, where its size is known",
        ),
        Spec("drop-unsubmitted", f"{_HERE}:DROP_UNSUBMITTED", "drop jobs without a submit time"),
        Spec("drop-unfinished", f"{_HERE}:DROP_UNFINISHED", "drop jobs that still run or wait"),
        Spec("size-from-larger", f"{_HERE}:SIZE_FROM_LARGER", "set allocated processors to the larger of both"),
        Spec("limit-from-run", f"{_HERE}:LIMIT_FROM_RUN", "give jobs without a requested time their run time"),
        Spec("limit-covers-run", f"{_HERE}:LIMIT_COVERS_RUN", "raise requested times to the run time"),
        Spec("run-within-limit", f"{_HERE}:RUN_WITHIN_LIMIT", "cut run times at the requested time"),
        Spec("anonymise", f"{_HERE}:ANONYMISE", "number people, jobs and nodes; drop what may name them"),
        Spec("sort-by-submit", f"{_HERE}:SORT_BY_SUBMIT", "order jobs by submit time, ties as they stand"),
    ],
)

RULE_SETS: dict[str, tuple[str, ...]] = {
    # What published comparisons on archive logs do. A run time can leak into a request: see `learning`.
    "archive": (
        "drop-unrun",
        "drop-sizeless",
        "drop-oversized",
        "size-from-larger",
        "limit-from-run",
        "limit-covers-run",
        "sort-by-submit",
    ),
    # The same without the leak: a job that overran its request is cut there instead of raising the request, and
    # a job without a request stays so.
    "learning": (
        "drop-unrun",
        "drop-sizeless",
        "drop-oversized",
        "size-from-larger",
        "run-within-limit",
        "sort-by-submit",
    ),
}


def expand_rules(names: Sequence[str]) -> list[str]:
    """Return the rule names with rule sets replaced by their rules. Raises UnknownNameError."""
    expanded: list[str] = []
    for name in names:
        if name not in RULE_SETS and name not in RULES:
            raise UnknownNameError("cleaning rule or rule set", name, [*RULE_SETS, *RULES])
        expanded.extend(RULE_SETS.get(name, (name,)))
    return expanded


def clean(trace: Trace, rules: Sequence[str]) -> Trace:
    """Return the trace after these rules and rule sets, with one manifest entry per rule."""
    steps = []
    for name in expand_rules(rules):
        trace, dropped, changed = RULES.get(name).apply(trace)
        steps.append(CleaningStep(name, dropped=dropped, changed=changed))
    return replace(trace, manifest=replace(trace.manifest, cleaning=(*trace.manifest.cleaning, *steps)))
