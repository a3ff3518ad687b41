"""Intervals of what is measured on jobs that hang together: the block bootstrap.

Waits in a queue hang together and have heavy tails, so one run is one draw, and jobs are no independent
observations. The jobs, in submit order, are cut into blocks of consecutive jobs, and blocks are drawn with
replacement; percentiles of a metric over 1000 draws are the ends of its interval. Blocks have 1024 jobs where
that makes at least 10 of them, else there are 20 of equal length; with fewer than 10 jobs there is no interval.
Where waits hang together over more jobs than a block has, as in a short trace with one long queue, the intervals
are too narrow.

Draws of few blocks vary too little. So the percentiles are those at which the interval of a mean of normal values
would be that of Student: the 1.6th and 98.4th for 20 blocks, nearly the 2.5th and 97.5th for hundreds (the
expanded percentile interval of T. C. Hesterberg, "What teachers should know about the bootstrap", The American
Statistician 69, 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator.jobs import FloatArray, IntArray

BLOCK_JOBS = 1024
FEWEST_BLOCKS = 10
USUAL_BLOCKS = 20
RESAMPLES = 1000
_RANKS = 4096
"""Percentiles of a draw are exact up to so many jobs, and to a 4096th of the jobs beyond."""


@dataclass(frozen=True)
class Draws:
    """Blocks of consecutive jobs, and how often each draw takes each of them."""

    block_of: IntArray
    """The block of every job."""
    sizes: FloatArray
    """The jobs of every block."""
    times: FloatArray
    """A row for each draw, a column for each block."""

    @classmethod
    def of(cls, jobs: int, resamples: int = RESAMPLES, seed: int = 0) -> Draws:
        """Return draws of the blocks of so many jobs; none if they are too few."""
        blocks = jobs // BLOCK_JOBS if jobs >= BLOCK_JOBS * FEWEST_BLOCKS else min(USUAL_BLOCKS, jobs)
        block_of = np.arange(jobs) * blocks // jobs
        if blocks < FEWEST_BLOCKS:
            resamples = 0
        chances = np.full(blocks, 1 / blocks)
        times = np.random.default_rng(seed).multinomial(blocks, chances, size=resamples)
        return cls(block_of, np.bincount(block_of).astype(np.float64), times.astype(np.float64))

    @property
    def any(self) -> bool:
        """Whether there are enough blocks for an interval."""
        return len(self.times) > 0

    def interval(self, values: FloatArray) -> tuple[float, float] | tuple[None, None]:
        """Return the 95 % interval that finite values in every draw give; None if there are none."""
        values = values[np.isfinite(values)]
        if not len(values):
            return None, None
        tail = tail_share(len(self.sizes))
        low, high = np.quantile(values, [tail, 1 - tail])
        return float(low), float(high)

    @property
    def blocks(self) -> int:
        """How many blocks the intervals come from; 0 where there are too few jobs for any."""
        return len(self.sizes) if self.any else 0

    def among(self, jobs: NDArray[np.bool_]) -> Draws:
        """Return the same draws for only these of the jobs."""
        return Draws(self.block_of[jobs], self.sizes, self.times)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values in every draw."""
        drawn: FloatArray = self.times @ np.bincount(self.block_of, weights=values, minlength=len(self.sizes))
        return drawn

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean in every draw."""
        return self.sums(values) / (self.times @ self.sizes)

    def percentiles(self, values: FloatArray, percents: list[float]) -> FloatArray:
        """Return each percentile (row) in every draw (column), between two jobs interpolated as numpy does."""
        if not self.any:
            return np.empty((len(percents), 0))
        ranked = np.argsort(values, kind="stable")
        ranks = min(_RANKS, len(values))
        rank_of = np.arange(len(values)) * ranks // len(values)
        cells = self.block_of[ranked] * ranks + rank_of
        members = np.bincount(cells, minlength=len(self.sizes) * ranks).reshape(-1, ranks)  # (blocks, ranks)
        reached = self.times @ np.cumsum(members, axis=1, dtype=np.float64)  # (draws, ranks)
        last = reached[:, -1:] - 1
        places = last * (np.array(percents) / 100)  # (draws, percents)
        floors = np.floor(places)
        wanted = np.hstack([floors, np.minimum(floors + 1, last)])
        at = np.array(
            [np.searchsorted(row, want, side="right") for row, want in zip(reached, wanted, strict=True)]
        )
        middles = np.searchsorted(rank_of, np.arange(ranks)) + np.bincount(rank_of) // 2
        lower, upper = np.hsplit(values[ranked[middles]][at], 2)
        between: FloatArray = lower + (upper - lower) * (places - floors)
        return between.T

    def group_means(self, groups: IntArray, values: FloatArray) -> FloatArray:
        """Return the mean of every group (row) in every draw (column); NaN where a draw has none of it."""
        count = int(groups.max()) + 1
        cells = groups * len(self.sizes) + self.block_of
        shape = (count, len(self.sizes))
        total = np.bincount(cells, weights=values, minlength=shape[0] * shape[1]).reshape(shape) @ self.times.T
        jobs = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape) @ self.times.T
        return np.divide(total, jobs, out=np.full_like(total, np.nan), where=jobs > 0)


def tail_share(blocks: int) -> float:
    """Return the share of draws beyond each end of a 95 % interval from so many blocks, at least 10."""
    normal = NormalDist()
    z = normal.inv_cdf(0.975)
    free = blocks - 1
    # Student's quantile by its expansion in 1/free, good to four digits from 9 on.
    student = (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
    return normal.cdf(-student * math.sqrt(blocks / free))
