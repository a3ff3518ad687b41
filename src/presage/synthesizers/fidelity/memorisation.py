"""Whether a synthetic trace gives away the jobs it was learned from.

Every figure stands beside the same figure of jobs that nobody learned from: later ones of the log, or ones that
were held out of it. Jobs resemble each other, and people repeat themselves; only what goes beyond is memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.synthesizers.columns import GAP, PEOPLE, RUN, SIZE
from presage.synthesizers.fidelity._boosting import area_under_curve
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._jobs import NOMINAL, NUMBERS, has, job_frame
from presage.synthesizers.fidelity._nearest import Space
from presage.synthesizers.known_jobs import IN_A_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray
    from presage.traces import Trace

SAMPLE_JOBS = 2_000
MOST_JOBS = 40_000
BLOCK_JOBS = 100
FEW = 10
NO_REFERENCE = "none: no jobs are known that were not learned from"


@dataclass(frozen=True)
class Copies(Figures):
    """Shares of jobs that are equal to some job of the log; NaN where there is nothing to say it of."""

    rows: float
    """In all columns but the gap; people count where their names mean the same."""
    rows_and_gap: float
    """In the gap too."""
    sequences: float
    """Of four jobs of a user in a row: that sizes, limits and run times of all are those of four in the log."""
    rare: float
    """As `rows`, of jobs that fewer than ten of the log are equal to: what many have gives nobody away."""


@dataclass(frozen=True)
class Memorisation(Figures):
    """What a synthetic trace has in common with the jobs it was learned from, beside what others have.

    Distances are between jobs: differences of logarithms in standard deviations of the log, squared and added, 1
    for every label that differs; the root of that.
    """

    reference: str
    """Which jobs, that were not learned from, stand beside."""
    synthetic: Copies
    natural: Copies
    """Of the reference."""
    halves: Copies
    """Of one half of the log in its other half: how much the log's jobs repeat each other within their time.

    Later jobs may have fewer because other people came, without any memory of those who went.
    """
    distance: float
    """Mean distance of a synthetic job to the nearest of the log."""
    distance_natural: float
    """Of a job of the reference to the nearest of the log."""
    nearer: float
    """How often a synthetic job is nearer to the log than one of the reference; equally near counts half."""
    membership_auc: float
    """How well nearness to the synthetic trace tells jobs that were learned from, from those of the reference.

    .5 is not at all. If the reference are later jobs, change over the months raises it without any memory.
    """
    drift_auc: float
    """The same with half of the log in place of the synthetic trace, asked about its other half.

    What the passing of time gives away alone: memory is what `membership_auc` has beyond it.
    """


def measure_memorisation(
    real: Trace,
    synthetic: Trace,
    later: Trace | None = None,
    *,
    held_out: Trace | None = None,
    same_people: bool = False,
    seed: int = 0,
) -> Memorisation:
    """Return what `synthetic` has in common with `real`, the jobs it was learned from.

    The reference is `held_out`, jobs of the same time that were not learned from, else `later`, else none.
    `same_people`: a name stands for the same user, group or account in all traces.
    """
    others = held_out if held_out is not None else later
    learned, drawn = job_frame(real), job_frame(synthetic)
    columns = [name for name in (*NUMBERS, *NOMINAL) if has(learned, name)]
    people = [name for name in PEOPLE if same_people and has(learned, name)]
    copies = _copies(drawn, learned, [*columns, *people])
    half, other_half = _halves(learned, seed)
    halves = _copies(half, other_half, [*columns, *people])
    if others is None:
        nothing = Copies(*[np.nan] * 4)
        near = Space.of(learned, columns).nearest(
            _sample(drawn, SAMPLE_JOBS, seed), _sample(learned, MOST_JOBS, seed)
        )
        return Memorisation(NO_REFERENCE, copies, nothing, halves, float(near.mean()), *[np.nan] * 4)
    reference = job_frame(others)
    words = "jobs held out of the log" if held_out is not None else "later jobs of the log"
    return Memorisation(
        words,
        copies,
        _copies(reference, learned, [*columns, *people]),
        halves,
        *_distances(learned, drawn, reference, columns, seed),
    )


def _copies(jobs: pl.DataFrame, learned: pl.DataFrame, columns: list[str]) -> Copies:
    without_gap = [name for name in columns if name != GAP]
    rows, known = _row_keys(jobs, without_gap), _row_keys(learned, without_gap)
    kinds, counts = np.unique(known, return_counts=True)
    return Copies(
        _copied(rows, known),
        _copied(_row_keys(jobs, columns), _row_keys(learned, columns)),
        _copied(_sequence_keys(jobs), _sequence_keys(learned)),
        float(np.isin(rows, kinds[counts < FEW]).mean()) if len(rows) and len(known) else float(np.nan),
    )


def _copied(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> float:
    return float(np.isin(keys, known).mean()) if len(keys) and len(known) else float(np.nan)


def _row_keys(jobs: pl.DataFrame, columns: list[str]) -> NDArray[np.uint64]:
    return jobs.select(columns).hash_rows().to_numpy()


def _sequence_keys(jobs: pl.DataFrame) -> NDArray[np.uint64]:
    """Return a key for every four jobs of a user in a row."""
    named = jobs.filter(pl.col("user").is_not_null()).select("user", SIZE, "limit_s", RUN)
    order = named.sort("user", maintain_order=True)
    steps = [
        pl.col(name).shift(step).alias(f"{name} {step}")
        for step in range(IN_A_ROW)
        for name in (SIZE, "limit_s", RUN)
    ]
    whole = pl.col("user") == pl.col("user").shift(IN_A_ROW - 1)
    return (
        order.select(whole.fill_null(value=False).alias("whole"), *steps)
        .filter("whole")
        .drop("whole")
        .hash_rows()
        .to_numpy()
    )


def _distances(
    learned: pl.DataFrame, drawn: pl.DataFrame, reference: pl.DataFrame, columns: list[str], seed: int
) -> tuple[float, float, float, float, float]:
    """Return the figures of `Memorisation` that distances give, in their order."""
    space = Space.of(learned, columns)
    few_drawn, few_learned, few_others = (_sample(each, SAMPLE_JOBS, seed) for each in (drawn, learned, reference))
    base = _sample(learned, MOST_JOBS, seed)
    near, natural = space.nearest(few_drawn, base), space.nearest(few_others, base)
    nearer = area_under_curve(-np.concatenate([near, natural]), _truth(near, natural))
    half, other_half = _halves(learned, seed)
    member = _membership(space, few_learned, few_others, _sample(drawn, MOST_JOBS, seed))
    drift = _membership(space, _sample(other_half, SAMPLE_JOBS, seed), few_others, _sample(half, MOST_JOBS, seed))
    return float(near.mean()), float(natural.mean()), nearer, member, drift


def _membership(space: Space, members: pl.DataFrame, others: pl.DataFrame, base: pl.DataFrame) -> float:
    inside, outside = space.nearest(members, base), space.nearest(others, base)
    return area_under_curve(-np.concatenate([inside, outside]), _truth(inside, outside))


def _truth(first: FloatArray, second: FloatArray) -> IntArray:
    return np.repeat([1, 0], [len(first), len(second)])


def _halves(jobs: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two halves of the jobs, drawn in stretches, so that few jobs of one session are in both."""
    blocks = -(-len(jobs) // min(BLOCK_JOBS, max(len(jobs) // 2, 1)))
    sides = np.random.default_rng(seed).permutation(np.arange(blocks) % 2 == 0)
    first = sides[np.arange(len(jobs)) * blocks // len(jobs)]
    return jobs.filter(first), jobs.filter(~first)


def _sample(jobs: pl.DataFrame, most: int, seed: int) -> pl.DataFrame:
    if len(jobs) <= most:
        return jobs
    return jobs[np.sort(np.random.default_rng(seed).choice(len(jobs), most, replace=False))]
