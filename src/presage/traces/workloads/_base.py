"""The contract of a workload model, and what all of them share: counting jobs, laying them out in time."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import polars as pl

import presage
from presage.errors import UsageError
from presage.traces import schema
from presage.traces.manifest import Machine, Manifest
from presage.traces.trace import Trace
from presage.traces.workloads._arrivals import DAY_S, WeeklyRhythm, check_span, stretch_to_span
from presage.traces.workloads._parameters import parameter, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.traces.workloads._arrivals import FloatArray

MAX_JOBS = 100_000_000
MAX_LOAD = 10.0
BLOCK_JOBS = 1 << 17
_EARLIEST_MS, _LATEST_MS = -2_208_988_800_000, 4_102_444_800_000  # the years 1900 and 2100
_TERMS = "no restrictions: the jobs are generated"


class Draws:
    """Random numbers for one trace: every quantity has its own stream.

    So a knob that adds a quantity leaves all the others as they were.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, np.random.Generator] = {}

    def __call__(self, quantity: str) -> np.random.Generator:
        """Return the stream of `quantity`, where its last use left it."""
        if quantity not in self._streams:
            key = zlib.crc32(quantity.encode())
            self._streams[quantity] = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(key,)))
        return self._streams[quantity]


@dataclass(frozen=True, kw_only=True)
class WorkloadModel(ABC):
    """Makes traces of jobs that never ran.

    A model is a frozen dataclass. Its fields are its parameters, made with `parameter`, checked when the
    model is made (UsageError, UnknownNameError) and written into the manifest of every trace. A kind says
    what the machine is, how the week goes, how far apart jobs arrive, and what a job is; counting jobs,
    reaching a load and laying jobs out in time is done here.

    Promises: the same parameters, amount and seed give the same trace in every process; jobs are in submit
    order, fit the machine and run for at least a second; nothing is known of waits, because a workload is
    what is submitted and not what a scheduler made of it; times are whole seconds from the start.
    """

    name: ClassVar[str]
    """The registered name."""
    resource: ClassVar[Literal["cpus", "gpus"]]
    """What the load counts: `cpus_req` against the machine's processors, or `gpus_req` against its GPUs."""

    load: float | None = parameter(
        None,
        "offered load: work of all jobs / (machine x time from first to last submit); none: the model's own pace",
        above=0,
        maximum=MAX_LOAD,
    )
    start_ms: int | None = parameter(
        None,
        "when the clock starts, milliseconds UTC; none: Monday, 1 January 2024, midnight in time_zone",
        minimum=_EARLIEST_MS,
        maximum=_LATEST_MS,
    )
    time_zone: str = parameter("UTC", "whose clock the daily and weekly rhythm follows, like Europe/Berlin")

    def __post_init__(self) -> None:
        for name, known in parameters_of(type(self)).items():
            known.check(getattr(self, name))
        self._start_ms()

    @abstractmethod
    def machine(self) -> Machine:
        """Return the machine; `resource` of it must be known."""

    @abstractmethod
    def week(self) -> FloatArray:
        """Return 336 weights of mean 1: how busy each half hour from Monday midnight is."""

    @abstractmethod
    def draw_gaps_s(self, draws: Draws, count: int) -> FloatArray:
        """Return the positive seconds before each of the next `count` jobs, as if all hours were alike."""

    @abstractmethod
    def draw_jobs(self, draws: Draws, count: int) -> pl.DataFrame:
        """Return the next `count` jobs: canonical columns, with `run_s` and the request, without id and submit."""

    def node_table(self) -> pl.DataFrame:
        """Return the nodes of the machine; none where the model knows only its size."""
        return schema.empty("nodes")

    def notes(self) -> tuple[str, ...]:
        """Return what a user of the trace should know and its columns do not say."""
        return ()

    def generate(
        self,
        jobs: int | None = None,
        *,
        days: float | None = None,
        seed: int = 0,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Trace:
        """Return a trace of `jobs` jobs, or of the jobs of `days` days; say one of the two.

        With a load, gaps between arrivals are stretched until it is met; `days` then decides how many jobs
        that takes. `progress` is called with the jobs made so far, and with their number where it is known.
        Raises UsageError if no such trace can be made.
        """
        _check_amount(jobs, days, seed)
        draws = Draws(seed)
        rhythm = WeeklyRhythm(self.week(), self._start_ms(), self.time_zone)
        points: FloatArray | None = None
        if days is not None and self.load is None:
            points = self._points_within(draws, rhythm.points_at(days * DAY_S))
            jobs = len(points)
        table = self._table(draws, jobs, days, progress)
        if points is None:
            points = self._points(draws, len(table))
        if self.load is not None:
            stretch_to_span(points, rhythm, self._span_s(table))
        submit_ms = rhythm.times_s(points).astype(np.int64) * 1000 + self._start_ms()
        table = table.select(
            pl.int_range(1, pl.len() + 1).cast(pl.String).alias("job_id"),
            pl.lit(pl.Series("submit_ms", submit_ms)),
            pl.all(),
        )
        return Trace.create(table, self._manifest(jobs, days, seed), nodes=self.node_table())

    def _table(
        self,
        draws: Draws,
        jobs: int | None,
        days: float | None,
        progress: Callable[[int, int | None], None] | None,
    ) -> pl.DataFrame:
        """Return `jobs` jobs; if that is None, as many as make the load over `days`."""
        enough = float("inf") if jobs is not None else self._capacity() * (self.load or 0) * (days or 0) * DAY_S
        blocks: list[pl.DataFrame] = []
        done, work = 0, 0.0
        while work < enough and done != jobs:
            block = self.draw_jobs(draws, min(BLOCK_JOBS, (jobs or MAX_JOBS) - done))
            if jobs is None:
                reached = np.searchsorted(work + np.cumsum(self._work(block)), enough) + 1
                block = block.head(int(reached))
                work += float(self._work(block).sum())
                _check_fits(done + len(block) < MAX_JOBS or work >= enough)
            blocks.append(block)
            done += len(block)
            if progress is not None:
                progress(done, jobs)
        return pl.concat(blocks)

    def _points(self, draws: Draws, count: int) -> FloatArray:
        points = np.empty(count)
        for first in range(0, count, BLOCK_JOBS):
            size = min(BLOCK_JOBS, count - first)
            points[first : first + size] = self.draw_gaps_s(draws, size)
        return np.cumsum(points, out=points)

    def _points_within(self, draws: Draws, limit: float) -> FloatArray:
        blocks: list[FloatArray] = []
        last = 0.0
        while last <= limit:
            _check_fits(len(blocks) * BLOCK_JOBS < MAX_JOBS)
            blocks.append(last + np.cumsum(self.draw_gaps_s(draws, BLOCK_JOBS)))
            last = float(blocks[-1][-1])
        points = np.concatenate(blocks)
        kept = points[: np.searchsorted(points, limit)].copy()
        if not len(kept):
            raise UsageError(
                "No job arrives within so short a time", expected="more days", remedy="Raise --days, or say --jobs"
            )
        return kept

    def _span_s(self, table: pl.DataFrame) -> float:
        if len(table) < 2:
            raise UsageError(
                "One job alone has no load",
                expected="at least two jobs",
                remedy="Ask for more jobs or days, or leave the load out",
            )
        return float(self._work(table).sum()) / (self._capacity() * (self.load or 1))

    def _work(self, table: pl.DataFrame) -> FloatArray:
        work: NDArray[np.float64] = (table["run_s"] * table[f"{self.resource}_req"]).to_numpy()
        return work

    def _capacity(self) -> float:
        return float(getattr(self.machine(), self.resource))

    def _start_ms(self) -> int:
        monday = pl.Series(["2024-01-01"]).str.to_datetime("%Y-%m-%d", time_unit="ms")
        try:
            zoned = monday.dt.replace_time_zone(self.time_zone, ambiguous="earliest")
        except pl.exceptions.PolarsError:
            raise UsageError(
                f"There is no time zone {self.time_zone!r}",
                expected="a name of the IANA list, like UTC or Europe/Berlin",
                remedy="Correct time_zone",
            ) from None
        return self.start_ms if self.start_ms is not None else int(zoned.dt.epoch("ms")[0])

    def _manifest(self, jobs: int | None, days: float | None, seed: int) -> Manifest:
        return Manifest(
            name=self.name,
            machine=self.machine(),
            time_zone=self.time_zone,
            origin_ms=self._start_ms(),
            synthetic=True,
            generator={
                "name": self.name,
                "parameters": asdict(self),
                "jobs": jobs if days is None else None,
                "days": days,
                "seed": seed,
                "presage": presage.__version__,
            },
            licence=_TERMS,
            notes=self.notes(),
        )


def zipf_ranks(rng: np.random.Generator, count: int, size: int, exponent: float) -> NDArray[np.int64]:
    """Return `count` ranks between 1 and `size`; rank k comes up in proportion to k to the power -exponent."""
    shares = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -exponent)
    ranks: NDArray[np.int64] = np.searchsorted(shares, rng.random(count) * shares[-1], side="right") + 1
    return np.minimum(ranks, size)


def _check_amount(jobs: int | None, days: float | None, seed: int) -> None:
    if (jobs is None) == (days is None):
        raise UsageError(
            "Neither jobs nor days is given" if jobs is None else "Both jobs and days are given",
            expected="one of the two",
            remedy="Say how many jobs, or how many days",
        )
    if jobs is not None and not (isinstance(jobs, int) and 1 <= jobs <= MAX_JOBS):
        raise UsageError(
            f"There cannot be {jobs:,} jobs",
            expected=f"a whole number between 1 and {MAX_JOBS:,}",
            remedy="Ask for another number; larger workloads are made in parts with different seeds",
        )
    if days is not None:
        if not 0 < days < float("inf"):
            raise UsageError(f"There cannot be {days} days", expected="a time above 0", remedy="Raise days")
        check_span(days)
    if not isinstance(seed, int) or seed < 0:
        raise UsageError(
            f"The seed cannot be {seed}", expected="a whole number, 0 or above", remedy="Take another seed"
        )


def _check_fits(fits: bool) -> None:
    if not fits:
        raise UsageError(
            f"So many days hold more than {MAX_JOBS:,} jobs", expected="fewer", remedy="Ask for fewer days"
        )
