"""What keeps a log's queues short: its own jobs, with one thing about them drawn at random, replayed.

Prints one JSON object. Every cell is a file of its own under docs/results/data/perturbed-queues: an interrupted
run goes on with the first cell that is missing, and several processes may work on different cells.

Protocol: the windows of benchmarks/synthesizers.py, replayed at the same load under FCFS with EASY backfilling.
The figure is the mean bounded slowdown over windows. Run times that are exchanged may be longer than limits.

    python benchmarks/perturbed_queues.py                # what is missing
    python benchmarks/perturbed_queues.py --only HPC2N   # cells whose names begin so
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cells import run_cells, say
from presage.synthesizers.fidelity.replay import replay_alike
from synthesizers import LOAD, ROOT, WAITS, windows

if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]

CELLS = ROOT / "docs" / "results" / "data" / "perturbed-queues"
LOGS = ("SDSC-BLUE", "HPC2N", "CTC-SP2", "RICC")
SEEDS = (1, 2)
HOUR_MS = 3_600_000
PART_H, DAY_H = 6, 24
WHEN = ("job_id", "submit_ms")


def nothing(jobs: pl.DataFrame, _rng: np.random.Generator) -> pl.DataFrame:
    """Return the jobs as they are."""
    return jobs


def exchanged(
    jobs: pl.DataFrame, rng: np.random.Generator, *, width_h: int, columns: tuple[str, ...] = ()
) -> pl.DataFrame:
    """Return the jobs with `columns`, or all that they are, exchanged at random among a user's of some hours."""
    moved = columns or tuple(name for name in jobs.columns if name not in WHEN)
    group = _groups(jobs, width_h)
    order, drawn = np.argsort(group, kind="stable"), np.lexsort((rng.random(len(group)), group))
    source = np.empty(len(group), np.int64)
    source[order] = drawn
    return jobs.with_columns(jobs[source].select(moved))


def spread(jobs: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return the jobs at any time of the six hours in which they came."""
    width_ms = PART_H * HOUR_MS
    anywhere = pl.Series((rng.random(len(jobs)) * width_ms).astype(np.int64))
    return jobs.with_columns(submit_ms=jobs["submit_ms"] // width_ms * width_ms + anywhere).sort("submit_ms")


def scaled(jobs: pl.DataFrame, rng: np.random.Generator, *, sigma: float) -> pl.DataFrame:
    """Return the jobs with one factor for all run times of a user in six hours; none passes its limit by that."""
    group = _groups(jobs, PART_H)
    factor = np.exp(sigma * rng.standard_normal(int(group.max()) + 1))[group]
    run_s = jobs["run_s"].to_numpy()
    most_s = np.maximum(jobs["limit_s"].fill_null(np.inf).to_numpy(), run_s)
    return jobs.with_columns(run_s=pl.Series(np.minimum(run_s * factor, most_s)))


CHANGES: dict[str, Change] = {
    "nothing": nothing,
    "order-six-hours": partial(exchanged, width_h=PART_H),
    "order-day": partial(exchanged, width_h=DAY_H),
    "times-six-hours": spread,
    "factor-0.3": partial(scaled, sigma=0.3),
    "factor-0.6": partial(scaled, sigma=0.6),
    "run-times-six-hours": partial(exchanged, width_h=PART_H, columns=("run_s",)),
}


def replayed(name: str, change: str, seed: int) -> dict[str, Any]:
    """Return how the changed jobs of a log queue."""
    say(f"{name} {change} {seed}")
    real, later = windows(name)
    changed = real.with_jobs(CHANGES[change](real.jobs, np.random.default_rng(seed)))
    found = replay_alike(real, changed, later, load=LOAD).outcome(WAITS, "mean_bounded_slowdown")
    return {"mean_bounded_slowdown": found.synthetic, "windows": list(found.windows)}


def cells() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cells by name."""
    return {
        f"{name}/{change}/{seed}": partial(replayed, name, change, seed)
        for name in LOGS
        for change in CHANGES
        for seed in SEEDS
        if change != "nothing" or seed == SEEDS[0]
    }


def _groups(jobs: pl.DataFrame, width_h: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a number for the user and the hours of each job."""
    part = jobs["submit_ms"] // (width_h * HOUR_MS)
    return jobs.select(pl.struct(part, "user").rank("dense")).to_series().to_numpy().astype(np.int64)


if __name__ == "__main__":
    run_cells("perturbed_queues", __doc__ or "", CELLS, cells())
