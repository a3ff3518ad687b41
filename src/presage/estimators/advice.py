"""What a batch script should ask for instead, by its own past: each change with its reason, and what it would do.

Nothing is changed here, and nothing is advised that a partition would refuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from presage.clusters.systems import Limits
from presage.estimators._base import Estimate, EstimateRequest, Knowledge, Quantity, UnsupportedError
from presage.estimators.asking import ask
from presage.estimators.wait.opinions import WaitOpinions, wait_opinions
from presage.units import format_bytes, format_seconds, spell_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from presage.estimators.scripts import Asked
    from presage.estimators.workloads import ScriptWorkload, Target

WORTH_IT = 0.9
"""A request is made smaller only if it becomes smaller than this share of itself."""


@dataclass(frozen=True)
class Change:
    """One request that should be another one."""

    option: str
    """`time` in seconds or `mem` in bytes of one node."""
    before: float | None
    """None: it is not said; infinite: no limit."""
    after: float
    reason: str

    def words(self, amount: float | None) -> str:
        """Return an amount of it as a person writes it."""
        if amount is None:
            return "not said"
        if math.isinf(amount):
            return "no limit"
        if self.option == "time":
            return format_seconds(amount)
        return format_bytes(amount) if amount else "all of the node"

    def __str__(self) -> str:
        return f"{self.option} {self.words(self.before)} → {self.words(self.after)}, because {self.reason}"

    def as_dict(self) -> dict[str, Any]:
        """Return the change as it is told to machines; infinite and unsaid amounts are null."""
        before = self.before if self.before is not None and math.isfinite(self.before) else None
        unit = "s" if self.option == "time" else "bytes"
        return {"option": self.option, "unit": unit, "before": before, "after": self.after, "reason": self.reason}


@dataclass(frozen=True)
class Advice:
    """What is known of a job before it is submitted, and what should be changed."""

    walltime: Estimate | None
    memory: Estimate | None
    wait: WaitOpinions
    """As it is asked for."""
    changes: tuple[Change, ...]
    changed_wait: Estimate | None
    """With the changes, by the same estimator; None if there are none or nobody can say."""
    notes: tuple[str, ...] = ()

    def after(self, option: str) -> float | None:
        """Return what an option is advised to be, None if as it is."""
        return next((change.after for change in self.changes if change.option == option), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as it is told to machines."""
        return {
            "walltime": self.walltime.as_dict() if self.walltime else None,
            "memory": self.memory.as_dict() if self.memory else None,
            "wait": self.wait.as_dict(),
            "changes": [change.as_dict() for change in self.changes],
            "changed_wait": self.changed_wait.as_dict() if self.changed_wait else None,
            "notes": list(self.notes),
        }


def advise(
    workload: ScriptWorkload, asked: Asked, target: Target, knowledge: Knowledge, limits: Limits | None = None
) -> Advice:
    """Return what a script should ask for at a target whose partition has these limits."""
    limits = limits or Limits()
    notes: list[str] = []
    walltime = _answer(EstimateRequest(Quantity.WALLTIME, workload, target), knowledge, "history-walltime", notes)
    memory = _answer(EstimateRequest(Quantity.MEMORY, workload, target), knowledge, "history-memory", notes)
    found = [_time_change(asked, walltime, limits), _memory_change(asked, memory, target, limits)]
    changes = tuple(change for change in found if change is not None)
    waits = wait_opinions(EstimateRequest(Quantity.WAIT, workload, target), knowledge)
    then = None
    if changes and waits.first is not None:
        changed = _changed(target, changes)
        request = EstimateRequest(Quantity.WAIT, workload, changed)
        then = _answer(request, knowledge, waits.first.estimator, notes)
    return Advice(walltime, memory, waits, changes, then, tuple(notes))


def _answer(request: EstimateRequest, knowledge: Knowledge, name: str, notes: list[str]) -> Estimate | None:
    try:
        return ask(request, knowledge, names=[name])
    except UnsupportedError as error:
        notes.append(error.problem)
        return None


def _time_change(asked: Asked, estimate: Estimate | None, limits: Limits) -> Change | None:
    suggested_s = estimate.details.get("suggested_s") if estimate else None
    if estimate is None or suggested_s is None:
        return None
    now_s = asked.walltime_s or limits.default_walltime_s or limits.max_walltime_s
    after_s = _bounded(float(suggested_s), limits.min_walltime_s, limits.max_walltime_s)
    sure_s = float(estimate.details["p95_s"])
    if not _is_better(now_s, after_s, sure_s):
        return None
    reason = f"p95 of {_runs(estimate)} is {spell_seconds(sure_s)}"
    if estimate.details.get("timeouts"):
        reason += f", and {estimate.details['timeouts']} of them reached the limit"
    return Change("time", now_s if asked.walltime_s is None else asked.walltime_s, after_s, reason)


def _memory_change(asked: Asked, estimate: Estimate | None, target: Target, limits: Limits) -> Change | None:
    suggested = estimate.details.get("suggested_bytes") if estimate else None
    if estimate is None or suggested is None or asked.exclusive or asked.memory_bytes is None:
        return None
    most = min(limits.max_memory_bytes or target.node_type.memory_bytes, target.node_type.memory_bytes)
    now = float(asked.memory_bytes or most)
    after = _bounded(float(suggested), None, float(most))
    sure = float(estimate.details["p95_bytes"])
    if not _is_better(now, after, sure):
        return None
    reason = f"p95 of {_runs(estimate)} is {format_bytes(sure)}"
    if estimate.details.get("out_of_memory"):
        reason += f", and {estimate.details['out_of_memory']} of them ran out of memory"
    return Change("mem", float(asked.memory_bytes), after, reason)


def _is_better(now: float | None, after: float, sure: float) -> bool:
    """Return whether a request is worth changing: much smaller, or too small as it is and larger then."""
    if now is None:
        return True
    return after < WORTH_IT * now or (sure > now and after > now)


def _bounded(amount: float, least: float | None, most: float | None) -> float:
    amount = amount if least is None else max(amount, least)
    return amount if most is None else min(amount, most)


def _changed(target: Target, changes: tuple[Change, ...]) -> Target:
    for change in changes:
        if change.option == "time":
            target = replace(target, walltime_s=change.after)
        else:
            target = replace(target, share=replace(target.share, memory_bytes=round(change.after)))
    return target


def _runs(estimate: Estimate) -> str:
    return f"{counted(int(estimate.details['runs']), 'earlier run')} ({estimate.details['level']})"
