"""The Lublin-Feitelson model of rigid batch jobs.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", J. Parallel and Distributed Computing 63(11), 2003; the variant without job types.

Sizes: a quarter of the jobs is serial; log2 of the others' size is uniform in two stages, the upper one thin,
and most are rounded to a power of two. Run times: their logarithm is one of two gammas, a wide one of short
jobs and a narrow one of long jobs; the wider the job, the likelier the long one. Arrivals: the logarithm of
the gap is a gamma, and gaps are squeezed and stretched by a daily cycle whose weights are a gamma too.

The model knows neither users nor requested times. The parameters `users` and `estimate` add them; what they
do is ours and not the paper's, and the manifest says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import polars as pl

from presage.errors import UsageError
from presage.traces.manifest import Machine
from presage.traces.workloads._arrivals import DAY_S, SLOTS_PER_DAY
from presage.traces.workloads._base import Draws, WorkloadModel, zipf_ranks
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.traces.workloads._arrivals import FloatArray

DAY_STARTS_AT_SLOT = 11
"""The daily gamma is laid over half hours 11 to 58, counted from 1: the day begins at five in the morning."""
POPULAR_LIMITS_S = np.array(
    [60 * m for m in (5, 10, 15, 20, 30, 45)]
    + [3600 * h for h in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 24, 30, 36, 48)],
    dtype=np.float64,
)
"""The few round numbers that people write as a requested time."""
_MOST_RARELY_ACCEPTED = 0.01
_SLIGHTEST_WEIGHT = 1e-9


@dataclass(frozen=True, kw_only=True)
class LublinModel(WorkloadModel):
    """Rigid parallel batch jobs on a machine of equal processors, after Lublin and Feitelson (2003)."""

    name: ClassVar[str] = "lublin"
    resource: ClassVar[Literal["cpus", "gpus"]] = "cpus"

    processors: int = parameter(256, "processors of the machine", minimum=1, maximum=100_000_000)
    estimate: str = parameter(
        "none",
        "requested times (ours): none; exact: the run time; modal: round over-estimates as people make them",
        choices=("none", "exact", "modal"),
    )
    users: int = parameter(0, "users (ours), few of them with most jobs; 0: none", minimum=0, maximum=10_000_000)
    user_exponent: float = parameter(1.0, "of the Zipf law of the users' shares (ours)", minimum=0, maximum=5)
    serial_share: float = parameter(0.244, "share of jobs of one processor", minimum=0, maximum=1)
    power_of_two_share: float = parameter(0.576, "share of jobs rounded to a power of two", minimum=0, maximum=1)
    size_low: float = parameter(0.8, "least log2 of a parallel job's size, before rounding", minimum=0, maximum=20)
    size_drop: float = parameter(
        2.5, "how far below log2(processors) large sizes become rare", above=0, maximum=20
    )
    size_low_share: float = parameter(0.86, "share of parallel jobs below that point", minimum=0, maximum=1)
    short_shape: float = parameter(4.2, "shape of the gamma of short jobs' log run time", above=0, maximum=1e4)
    short_scale: float = parameter(0.94, "its scale", minimum=1e-3, maximum=100)
    long_shape: float = parameter(312.0, "shape of the gamma of long jobs' log run time", above=0, maximum=1e4)
    long_scale: float = parameter(0.03, "its scale", minimum=1e-3, maximum=100)
    short_slope: float = parameter(
        -0.0054, "change of the share of short jobs per processor", minimum=-1, maximum=1
    )
    short_offset: float = parameter(0.78, "share of short jobs at size 0", minimum=-1, maximum=2)
    run_log_max: float = parameter(12.0, "log of the longest run time in seconds", above=0, maximum=20)
    gap_shape: float = parameter(10.2303 * 1.0225, "shape of the gamma of the log gap", above=0, maximum=1e4)
    gap_scale: float = parameter(0.4871, "its scale", minimum=1e-3, maximum=100)
    gap_log_max: float = parameter(13.0, "log of the longest gap in seconds", above=0, maximum=20)
    cycle_shape: float = parameter(8.1737, "shape of the gamma of arrivals over the day", above=0, maximum=1e4)
    cycle_scale: float = parameter(3.9631, "its scale, in half hours", minimum=1e-3, maximum=1e4)

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, shape, scale, limit in (
            ("short", self.short_shape, self.short_scale, self.run_log_max),
            ("long", self.long_shape, self.long_scale, self.run_log_max),
            ("gap", self.gap_shape, self.gap_scale, self.gap_log_max),
        ):
            if gamma_cdf(np.array([limit / scale]), shape)[0] < _MOST_RARELY_ACCEPTED:
                raise UsageError(
                    f"{what}_shape {shape:g} and {what}_scale {scale:g} hardly ever give a value below {limit:g}",
                    expected="a gamma that mostly stays below its cap",
                    remedy=f"Lower {what}_scale, or raise {'gap' if what == 'gap' else 'run'}_log_max",
                )

    def machine(self) -> Machine:
        return Machine(cpus=float(self.processors))

    def week(self) -> FloatArray:
        return np.tile(self.day(), 7)

    def day(self) -> FloatArray:
        """Return the weights of the day's 48 half hours from midnight, of mean 1."""
        slots = np.arange(DAY_STARTS_AT_SLOT, DAY_STARTS_AT_SLOT + SLOTS_PER_DAY)
        edges = np.append(slots - 0.5, slots[-1] + 0.5) / self.cycle_scale
        shares = np.maximum(np.diff(gamma_cdf(edges, self.cycle_shape)), _SLIGHTEST_WEIGHT)
        weights = np.empty(SLOTS_PER_DAY)
        weights[(slots - 1) % SLOTS_PER_DAY] = shares / shares.mean()
        return weights

    def notes(self) -> tuple[str, ...]:
        said = []
        if self.estimate != "none":
            said.append(f"requested times are not the Lublin-Feitelson model's: estimate={self.estimate}")
        if self.users:
            said.append("users are not the Lublin-Feitelson model's: a Zipf law, without sessions")
        return tuple(said)

    def draw_gaps_s(self, draws: Draws, count: int) -> FloatArray:
        rng = draws("gap")

        def draw(places: NDArray[np.int64]) -> FloatArray:
            return rng.standard_gamma(self.gap_shape, len(places)) * self.gap_scale

        return np.exp(_draw_below(self.gap_log_max, count, draw))

    def draw_jobs(self, draws: Draws, count: int) -> pl.DataFrame:
        size = self._draw_sizes(draws, count)
        run_s = self._draw_runs_s(draws, size)
        columns = {"cpus_req": pl.Series(size), "run_s": pl.Series(run_s)}
        if self.estimate == "exact":
            columns["limit_s"] = columns["run_s"]
        elif self.estimate == "modal":
            columns["limit_s"] = pl.Series(modal_limits_s(draws("limit"), run_s))
        if self.users:
            ranks = zipf_ranks(draws("user"), count, self.users, self.user_exponent)
            columns["user"] = pl.select(pl.format("user{}", pl.Series(ranks))).to_series()
        return pl.DataFrame(columns)

    def _draw_sizes(self, draws: Draws, count: int) -> FloatArray:
        high = math.log2(self.processors)
        low = min(self.size_low, high)
        middle = min(max(high - self.size_drop, low), high)
        kind = draws("size kind").random(count)
        upper = draws("size stage").random(count) >= self.size_low_share
        place = draws("size").random(count)
        log_size = np.where(upper, middle + place * (high - middle), low + place * (middle - low))
        # Rounding may not lead above the machine, which need not be a power of two itself.
        rounded = np.minimum(np.floor(log_size + 0.5), math.floor(high))
        is_power = kind < self.serial_share + self.power_of_two_share
        size = np.floor(np.exp2(np.where(is_power, rounded, log_size)) + 0.5)
        size[kind < self.serial_share] = 1
        return np.minimum(size, self.processors)

    def _draw_runs_s(self, draws: Draws, size: FloatArray) -> FloatArray:
        short_share = np.clip(self.short_slope * size + self.short_offset, 0, 1)
        kinds, values = draws("run kind"), draws("run")

        def draw(places: NDArray[np.int64]) -> FloatArray:
            is_short = kinds.random(len(places)) < short_share[places]
            logs = np.empty(len(places))
            short = int(is_short.sum())
            logs[is_short] = values.standard_gamma(self.short_shape, short) * self.short_scale
            logs[~is_short] = values.standard_gamma(self.long_shape, len(places) - short) * self.long_scale
            return logs

        return np.floor(np.exp(_draw_below(self.run_log_max, len(size), draw)))


def gamma_cdf(x: FloatArray, shape: float) -> FloatArray:
    """Return the distribution function of the gamma of `shape` and scale 1 at `x`, by its power series."""
    certain = x > shape + 40 * math.sqrt(shape) + 100
    safe = np.where(certain, shape, np.maximum(x, 1e-300))
    term = np.full_like(safe, 1.0)
    total = term.copy()
    step = 0
    while (term > total * 1e-17).any():
        step += 1
        term = term * safe / (shape + step)
        total += term
    value = np.exp(shape * np.log(safe) - safe - math.lgamma(shape + 1)) * total
    return np.where(certain, 1.0, np.clip(value, 0.0, 1.0))


def modal_limits_s(rng: np.random.Generator, run_s: FloatArray) -> FloatArray:
    """Return requested times as people choose them: too long, and round.

    A job uses a uniform share of what it asks for, and the request is rounded up to one of a few popular
    values. Both are what studies of user estimates agree on; the rest of their findings is left out. No job
    runs longer than it asks for. Beyond two days requests are whole days.
    """
    wanted = np.minimum(run_s / (1 - rng.random(len(run_s))), np.maximum(run_s, POPULAR_LIMITS_S[-1]))
    place = np.searchsorted(POPULAR_LIMITS_S, wanted)
    popular = POPULAR_LIMITS_S[np.minimum(place, len(POPULAR_LIMITS_S) - 1)]
    limits_s: FloatArray = np.where(place < len(POPULAR_LIMITS_S), popular, np.ceil(wanted / DAY_S) * DAY_S)
    return limits_s


def _draw_below(limit: float, count: int, draw: Callable[[NDArray[np.int64]], FloatArray]) -> FloatArray:
    """Return `count` values drawn by place, drawing anew those above `limit`."""
    values = draw(np.arange(count))
    while len(over := np.flatnonzero(values > limit)):
        values[over] = draw(over)
    return values
