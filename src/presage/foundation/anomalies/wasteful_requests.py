"""Users who ask for much more than they use, again and again: processors, memory, GPUs, or time.

Jobs of one user with the same request on one day are one decision. A user wastes by habit if most of their
decisions use less than a quarter of what they ask for (of the time limit, a tenth), which is more than others'
decisions do, and if it concerns a part of all that is asked for that is worth a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import HIGHEST_SCORE, Anomaly, Detector
from presage.foundation.anomalies._surprise import DAY_MS, odds_ratio

if TYPE_CHECKING:
    from presage.foundation.anomalies._history import Floats
    from presage.foundation.anomalies.knowledge import Knowledge
    from presage.traces import Trace

_RESOURCES = {
    # Name: unit, its size, what jobs used less than, columns needed.
    "processors": ("processor hours", 3600.0, 0.25, ("cpu_used_s",)),
    "memory": ("GiB hours", 2.0**30 * 3600, 0.25, ("mem_used_bytes", "mem_req_bytes")),
    "GPUs": ("GPU hours", 3600.0, 0.25, ("gpu_used_s",)),
    "time limit": ("processor hours", 3600.0, 0.1, ("limit_s", "run_s")),
}
_LEAST_DECISIONS = 5
_MOST = 0.5
_LEAST_ODDS_RATIO = 3.0
_LEAST_DIFFERENCE = 0.2
_WORTH = 0.005
_WEIGHT = 20.0
_PRIOR = 0.2


class WastefulRequests(Detector):
    """Finds users who habitually ask for more than they use."""

    name: ClassVar[str] = "wasteful-request"
    family: ClassVar[str] = "requests"

    def needs(self, trace: Trace) -> str | None:
        if trace.jobs["user"].null_count() == len(trace.jobs):
            return "the trace has no users (user)"
        if not self._told(trace):
            wanted = "; ".join(" and ".join(columns) for *_, columns in _RESOURCES.values())
            return f"the trace has nothing asked for together with its use ({wanted})"
        return None

    def find(self, known: Knowledge) -> list[Anomaly]:
        resources = self._told(known.trace)
        users = known.trace.jobs["user"].n_unique()
        return [
            finding
            for resource in resources
            for finding in self._habits(known, resource, np.log10(users * len(resources)))
        ]

    def _told(self, trace: Trace) -> list[str]:
        known = {name for name in trace.jobs.columns if trace.jobs[name].null_count() < len(trace.jobs)}
        return [name for name, (*_, columns) in _RESOURCES.items() if known.issuperset(columns)]

    def _habits(self, known: Knowledge, resource: str, price: float) -> list[Anomaly]:
        """Return the findings about one resource."""
        unit, unit_size, low, _ = _RESOURCES[resource]
        asked, used = _amounts(known, resource)
        decisions = _decisions(known, asked, used, low)
        if not len(decisions):
            return []
        # What others had decided until each user's last decision.
        habits = (
            decisions.sort("end", maintain_order=True)
            .with_columns(
                pl.col("low").cum_sum().alias("low_all"),
                pl.int_range(1, pl.len() + 1).alias("all"),
                pl.col("asked").cum_sum().alias("asked_all"),
            )
            .group_by("user", maintain_order=True)
            .agg(
                pl.col("low").sum(), pl.len().alias("number"), pl.col("low_all", "all", "asked_all", "end").last(),
                pl.col("begin").min(), (pl.col("asked") - pl.col("used")).clip(0).sum().alias("wasted"),
                pl.col("asked", "used", "jobs").sum(),
                pl.col("rows").filter(pl.col("low")).list.explode(keep_nulls=False, empty_as_null=False),
            )
            .with_columns(
                rate=pl.col("low") / pl.col("number"),
                others=(pl.col("low_all") - pl.col("low") + _WEIGHT * _PRIOR)
                / (pl.col("all") - pl.col("number") + _WEIGHT),
            )
            .filter(
                (pl.col("number") >= _LEAST_DECISIONS) & (pl.col("rate") >= _MOST)
                & (pl.col("rate") >= pl.col("others") + _LEAST_DIFFERENCE)
                & (pl.col("wasted") >= _WORTH * pl.col("asked_all"))
            )
        )  # fmt: skip
        findings = []
        for habit in habits.iter_rows(named=True):
            if odds_ratio(habit["rate"], habit["others"]) < _LEAST_ODDS_RATIO:
                continue
            score = habit["number"] * _divergence(habit["rate"], habit["others"]) - price
            amount = f"{habit['wasted'] / unit_size:,.0f} of {habit['asked'] / unit_size:,.0f} {unit}"
            reason = (
                f"user {habit['user']}: {habit['low']:,} of {habit['number']:,} requests used less than "
                f"{100 * low:.0f} % of the {resource} asked for ({100 * habit['others']:.0f} % of others' do); "
                f"unused were {amount}"
            )
            rows = np.array(habit["rows"], np.int64)
            findings.append(
                Anomaly(
                    self.name, "user", habit["user"], int(habit["begin"]), int(habit["end"]),
                    min(score, HIGHEST_SCORE), reason, evidence=known.ids(rows), jobs=len(rows),
                    numbers={
                        "share_used": round(habit["used"] / habit["asked"], 4),
                        "unused": round(habit["wasted"] / unit_size, 3),
                        "requests": habit["number"], "wasteful": habit["low"], "others": round(habit["others"], 4),
                    },
                )
            )  # fmt: skip
        return findings


def _amounts(known: Knowledge, resource: str) -> tuple[Floats, Floats]:
    """Return what each job asked for and used of a resource, over its run; nan where not both are told."""
    run_s, cpus = known.run_s, np.nan_to_num(known.cpus, nan=1.0)
    if resource == "time limit":
        # Who fails or is cancelled did not need the time; only those that ended well tell what was needed.
        ended = np.where(known.completed, run_s, np.nan)
        asked, used = known.floats(pl.col("limit_s")) * cpus, ended * cpus
    elif resource == "processors":
        asked, used = run_s * cpus, known.floats(pl.col("cpu_used_s"))
    elif resource == "memory":
        asked = known.floats(pl.col("mem_req_bytes")) * run_s
        used = known.floats(pl.col("mem_used_bytes")) * run_s
    else:
        asked, used = run_s * known.gpus, known.floats(pl.col("gpu_used_s"))
    told = (asked > 0) & (used >= 0) & np.isfinite(known.end_ms)
    return np.where(told, asked, np.nan), np.where(told, used, np.nan)


def _decisions(known: Knowledge, asked: Floats, used: Floats, low: float) -> pl.DataFrame:
    """Return one row for each user, day and request, with its amounts and whether they are wasteful."""
    jobs = known.trace.jobs.select("user", "limit_s", "mem_req_bytes", "cpus_req", "gpus_req").with_row_index(
        "row"
    )
    frame = jobs.with_columns(
        pl.Series("asked", asked), pl.Series("used", used), pl.Series("end", known.end_ms),
        pl.Series("day", known.end_ms // DAY_MS), pl.Series("told", ~np.isnan(asked)),
    ).filter(pl.col("told") & pl.col("user").is_not_null())  # fmt: skip
    request = ("user", "day", "cpus_req", "gpus_req", "mem_req_bytes", "limit_s")
    return (
        frame.group_by(request, maintain_order=True)
        .agg(
            pl.col("asked", "used").sum(), pl.col("end").max(), pl.col("end").min().alias("begin"),
            pl.len().alias("jobs"), pl.col("row").cast(pl.Int64).head(20).alias("rows"),
        )
        .with_columns(low=pl.col("used") < low * pl.col("asked"))
    )  # fmt: skip


def _divergence(rate: float, usual: float) -> float:
    """Return log10 of how much likelier one decision is, on average, at the rate than at the usual one."""
    rate = min(max(rate, 1e-6), 1 - 1e-6)
    usual = min(max(usual, 1e-4), 1 - 1e-4)
    return float(rate * np.log10(rate / usual) + (1 - rate) * np.log10((1 - rate) / (1 - usual)))
