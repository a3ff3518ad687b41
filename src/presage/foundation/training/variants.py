"""Clusters that never were, made from logs of real ones: other clocks, other machines, other policies.

A log teaches how one scheduler behaves. Its jobs, sent through the simulator on a machine of another size under
another policy, or with all its times stretched, teach how others would. So do jobs that a synthesizer draws after
the log: these are other jobs, of users who never were.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.view.jobs import history_of
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.foundation.view.jobs import JobHistory
    from presage.traces import Trace

    Draw = Callable[[int, int], Trace]
    """Makes a trace of about so many jobs out of a seed."""

JOBS = 25_000
LEARNT_FROM = 0.8
ORDERS = ("fcfs", "fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "lxf", "ljf")
BACKFILLINGS = ("easy", "easy", "easy-sjbf", "none", "periodic")
STRETCH = (0.15, 10.0)
LOAD = (0.6, 1.02)
DISPATCH_S = (0.0, 0.5, 2.0, 10.0, 40.0)
ONLY_STRETCHED = 1 / 3
ATTEMPTS = 8
LONGEST_MEAN_WAIT_S = 30 * 86_400.0
"""A variant in which jobs wait longer than that on average is overloaded: another one is drawn."""


def variant_of(history: JobHistory, rng: np.random.Generator) -> tuple[JobHistory, dict[str, object]]:
    """Return a variant of a part of `history`, and what was changed.

    The last fifth of the log is left out: it is what forecasts are measured on. There must be something left
    (`can_vary`).
    """
    rows = _usable(history)
    begin = int(rng.integers(0, max(len(rows) - JOBS, 0) + 1))
    part = history.select(rows[begin : begin + JOBS])
    only_stretched = rng.random() < ONLY_STRETCHED
    factor = 1.0
    if only_stretched or rng.random() < 0.6:
        factor = float(np.exp(rng.uniform(*np.log(STRETCH))))
        part = stretched(part, factor)
    if only_stretched:
        return part, {"stretch": factor}
    return _replayed(part, factor, rng)


def can_vary(history: JobHistory) -> bool:
    """Return whether a log has jobs to make variants of."""
    return len(_usable(history)) > 0


def _usable(history: JobHistory) -> NDArray[np.int64]:
    ran = np.flatnonzero(np.isfinite(history.start_s) & np.isfinite(history.end_s))
    return ran[: int(LEARNT_FROM * len(ran))]


def learnt_from(trace: Trace) -> Trace:
    """Return the part of a log that a synthesizer may see: no more than other variants are made of."""
    return trace.with_jobs(trace.jobs.head(int(LEARNT_FROM * len(trace))).tail(JOBS))


def synthetic_variant(
    draw: Draw, jobs: int, seed: int, rng: np.random.Generator
) -> tuple[JobHistory, dict[str, object]] | None:
    """Return jobs as `draw` makes them, run on a machine and under a policy that are drawn too, and which.

    None if there is not one of which it is known how long it runs.
    """
    drawn = history_of(draw(min(jobs, JOBS), seed))
    ran = np.flatnonzero(np.isfinite(drawn.start_s) & np.isfinite(drawn.end_s))
    return _replayed(drawn.select(ran), 1.0, rng) if len(ran) else None


def stretched(history: JobHistory, factor: float) -> JobHistory:
    """Return the history with all its times multiplied, as if the clock ran at another speed."""
    facts = history.facts.copy()
    submit_s = facts["submit_s"] - facts["submit_s"].min()
    wait_s, run_s = history.wait_s, history.run_s
    facts["submit_s"] = submit_s * factor
    facts["limit_s"] = np.maximum(facts["limit_s"] * factor, 1.0)
    facts["log_limit"] = np.log1p(facts["limit_s"])
    start_s = facts["submit_s"] + wait_s * factor
    return replace(history, facts=facts, start_s=start_s, end_s=start_s + run_s * factor)


def _replayed(
    history: JobHistory, factor: float, rng: np.random.Generator
) -> tuple[JobHistory, dict[str, object]]:
    size = history.facts["size"]
    run_s = np.maximum(history.run_s, 1.0)
    span_s = max(float(np.ptp(history.facts["submit_s"])), 1.0)
    for _ in range(ATTEMPTS):
        load = float(rng.uniform(*LOAD))
        machine = int(np.ceil(max((size * run_s).sum() / span_s / load, np.quantile(size, 0.995), 1.0)))
        policy = Policy.parse(f"{rng.choice(ORDERS)}+{rng.choice(BACKFILLINGS)}")
        facts = history.facts.copy()
        facts["size"] = np.minimum(size, machine)
        facts["log_size"] = np.log1p(facts["size"])
        start_s = _starts_s(facts, run_s, machine, policy)
        start_s = start_s + rng.choice(DISPATCH_S) * rng.exponential(size=len(start_s))
        if (start_s - facts["submit_s"]).mean() <= LONGEST_MEAN_WAIT_S * factor:
            break
    about = {"stretch": factor, "load": load, "policy": str(policy), "machine": float(machine)}
    variant = replace(
        history, facts=facts, start_s=start_s, end_s=start_s + run_s, size=float(machine), has_waits=True
    )
    return variant, about


def _starts_s(facts: np.ndarray, run_s: np.ndarray, machine: int, policy: Policy) -> np.ndarray:
    def ms(seconds: np.ndarray) -> np.ndarray:
        return np.maximum(np.round(seconds * 1000), 1).astype(np.int64)

    limit_ms = ms(facts["limit_s"])
    submit_ms = np.round(facts["submit_s"] * 1000).astype(np.int64)
    processors = np.ceil(facts["size"]).astype(np.int64)
    jobs = Jobs(submit_ms, ms(run_s), limit_ms, limit_ms, limit_ms, processors)
    # The simulator counts whole milliseconds: rounding must not start a job before its submit.
    return np.maximum(schedule(jobs, machine, policy) / 1000.0, facts["submit_s"])
