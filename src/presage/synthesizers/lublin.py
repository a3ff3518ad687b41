"""Lublin and Feitelson's model of rigid batch jobs (2003), fitted to a log.

Sizes, run times and gaps follow the paper's distributions with the log's own parameters. Sizes: a share of serial
jobs, a share of powers of two, log2 of the others' size uniform in two stages; what is drawn becomes the nearest
size that the log has. Run times: their logarithm is one of two gammas, found by expectation-maximisation; how
often it is the first changes in a line with the size. Gaps: their logarithm is a gamma, laid over the hours of the
day, which are as busy as the log's.

The paper knows no users, queues, outcomes or limits. These are ours: each is drawn by itself, as often as in the
log, a limit among those that the run keeps. So nothing here tells one user from another, or one week from another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from presage.errors import PresageError
from presage.synthesizers._base import Synthesizer
from presage.synthesizers.columns import GAP, RUN, SIZE, JobTable
from presage.traces.workloads import Draws, parameter
from presage.traces.workloads._arrivals import WeeklyRhythm
from presage.traces.workloads.lublin import LublinModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import Category, FloatArray, IntArray

LIMIT = "limit_s"
FITTED = (
    "processors", "serial_share", "power_of_two_share", "size_low", "size_drop", "size_low_share", "short_shape",
    "short_scale", "long_shape", "long_scale", "short_slope", "short_offset", "run_log_max", "gap_shape",
    "gap_scale", "gap_log_max",
)  # fmt: skip
"""The parameters of the workload model that are fitted, in the order in which they are kept."""
_ADDED = "users, queues, requests beside the size, outcomes and limits are not the paper's: drawn by frequency"
_MOST_PROCESSORS = 100_000_000
_STAGES = 200
_LEAST_STAGE = 0.05
_LEAST_SHARE = 1e-3
_SETTLED = 1e-7
_PACE_DRAWS = 200_000
_BISECTIONS = 60


@dataclass(frozen=True)
class LublinSettings:
    """How the model is fitted."""

    rounds: int = parameter(
        200, "at most so many rounds of expectation-maximisation for the run times", minimum=1, maximum=100_000
    )


class FittedLublin(Synthesizer):
    """Rigid parallel batch jobs with the log's own parameters, after Lublin and Feitelson (2003)."""

    name: ClassVar[str] = "lublin"
    settings_type: ClassVar[type] = LublinSettings

    _model: LublinModel
    _pace: float
    """What gaps are multiplied by, so that jobs come as fast as in the log whatever the gamma's tail is."""
    _frequencies: dict[str, FloatArray]

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        jobs = JobTable.joined([table, later])  # nothing is stopped early, so there is nothing to hold back
        sizes = self._sizes(jobs)
        gaps = self._unwarped_gaps(jobs.numbers[GAP])
        fitted = fit_sizes(sizes) | fit_runs(jobs.numbers[RUN], sizes, self.settings.rounds) | fit_gaps(gaps)
        self._frequencies = {
            each.name: np.bincount(jobs.codes[each.name], minlength=len(each)).astype(np.float64)
            for each in self.columns.categories
        }
        self._model = LublinModel(**fitted)
        self._pace = float(gaps.mean()) / float(self._model.draw_gaps_s(Draws(0), _PACE_DRAWS).mean())
        training.tell(1, 1)
        return {"parameters": fitted, "pace": self._pace, "added": _ADDED}

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        draws = Draws(int(rng.integers(1 << 62)))
        jobs = self._model.draw_jobs(draws, count)
        run_s = jobs["run_s"].to_numpy()
        codes = {
            name: draw_codes(weights, count, draws(name))
            for name, weights in self._frequencies.items()
            if name not in (SIZE, LIMIT)
        }
        if (sizes := self.columns.category(SIZE)) is not None:
            codes[SIZE] = self._size_codes(sizes, jobs["cpus_req"].to_numpy(), draws(SIZE))
        if (limits := self.columns.category(LIMIT)) is not None:
            codes[LIMIT] = self._limit_codes(limits, run_s, draws(LIMIT))
        points = np.cumsum(self._model.draw_gaps_s(draws, count) * self._pace)
        arrivals_s = self._rhythm(start_ms).times_s(points)
        drawing.tell(count)
        return JobTable(codes, {GAP: np.diff(arrivals_s, prepend=0.0), RUN: run_s})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        fitted = np.array([float(getattr(self._model, name)) for name in FITTED])
        kept = {f"frequencies/{name}": weights for name, weights in self._frequencies.items()}
        return {"parameters": fitted, "pace": np.array([self._pace]), **kept}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        values = dict(zip(FITTED, arrays["parameters"].tolist(), strict=True))
        try:
            self._model = LublinModel(**{**values, "processors": int(values["processors"])})
        except PresageError as error:
            raise ValueError(str(error)) from None
        self._pace = float(arrays["pace"][0])
        self._frequencies = {each.name: arrays[f"frequencies/{each.name}"] for each in self.columns.categories}
        for each in self.columns.categories:
            if self._frequencies[each.name].shape != (len(each),):
                raise ValueError(f"the frequencies of {each.name} are not those of its values")

    def _sizes(self, jobs: JobTable) -> FloatArray:
        """Return the size of each job; where it is unknown, one processor."""
        category = self.columns.category(SIZE)
        if category is None:
            return np.full(len(jobs), float(self.columns.constants.get(SIZE) or 1.0))
        return np.nan_to_num(category.numbers(), nan=1.0)[jobs.codes[SIZE]]

    def _size_codes(self, category: Category, sizes: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return the nearest size of the log; for serial jobs one that is at most 1, and unknown ones as often."""
        numbers, weights = category.numbers(), self._frequencies[SIZE]
        codes = _nearest(np.where(numbers > 0, numbers, np.nan), sizes)
        serial = np.where(numbers <= 1, weights, 0.0)
        is_serial = sizes <= 1
        if serial.any():
            codes[is_serial] = draw_codes(serial, int(is_serial.sum()), rng)
        if np.isnan(numbers[0]):
            codes[rng.random(len(codes)) < weights[0] / weights.sum()] = 0
        return codes

    def _limit_codes(self, category: Category, run_s: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return limits as often as the log has them, of those that the run keeps, where the log's limits hold."""
        if not self.columns.limits_hold:
            return draw_codes(self._frequencies[LIMIT], len(run_s), rng)
        # No limit is kept by every run, so it comes behind the longest.
        limits_s = np.nan_to_num(category.numbers(), nan=math.inf)
        order = np.argsort(limits_s, kind="stable")
        up_to = np.concatenate([[0.0], np.cumsum(self._frequencies[LIMIT][order])])
        first = np.searchsorted(limits_s[order], run_s - self.columns.grace_s)
        first = np.minimum(first, len(order) - 1)
        place = up_to[first] + rng.random(len(run_s)) * (up_to[-1] - up_to[first])
        drawn = np.searchsorted(up_to[1:], place, "right")
        codes: IntArray = order[np.clip(drawn, first, len(order) - 1)]
        return codes

    def _unwarped_gaps(self, gaps_s: FloatArray) -> FloatArray:
        """Return the log's gaps as if all hours of the day were alike."""
        points = self._rhythm(self.source.first_ms).points_of(np.cumsum(gaps_s))
        return np.maximum(np.diff(points, prepend=0.0), 0.0)

    def _rhythm(self, start_ms: int) -> WeeklyRhythm:
        day = self.source.rhythm().reshape(7, -1).mean(axis=0)
        return WeeklyRhythm(np.tile(day, 7), start_ms, self.source.time_zone or "UTC")


def fit_sizes(sizes: FloatArray) -> dict[str, Any]:
    """Return the parameters of the sizes: serial share, share of powers of two, the two stages of the others."""
    parallel = sizes[sizes > 1]
    logs = np.log2(parallel)
    is_power = logs == np.rint(logs)
    most = min(max(math.ceil(float(sizes.max())), 1), _MOST_PROCESSORS)
    fitted = {
        "processors": most,
        "serial_share": 1 - len(parallel) / len(sizes),
        "power_of_two_share": float(is_power.sum()) / len(sizes),
    }
    if not len(parallel):
        return fitted
    high = math.log2(most)
    low = min(max(float(logs.min()) - 0.5, 0.0), high - 2 * _LEAST_STAGE, 20.0)
    # A power of two stands for all sizes that are rounded to it.
    begins, ends = np.maximum(logs - 0.5 * is_power, low), np.minimum(logs + 0.5 * is_power, high)
    middle, share = _two_stages(begins, np.maximum(ends, begins), low, high, float(parallel.mean()))
    return fitted | {"size_low": low, "size_drop": high - middle, "size_low_share": share}


def _two_stages(begins: FloatArray, ends: FloatArray, low: float, high: float, mean: float) -> tuple[float, float]:
    """Return where the two stages of [low, high] meet and the share below.

    Of a grid it is the likeliest place at which some share gives the mean size, so that jobs do as much work as
    the log's; where no share does, the likeliest of all.
    """
    values, places = np.unique(np.stack([begins, ends]), axis=1, return_inverse=True)
    counts = np.bincount(places.ravel()) / len(begins)
    width = np.maximum(values[1] - values[0], 1e-9)
    edge = min(_LEAST_STAGE, (high - low) / 4)
    best = (False, -math.inf, (low + high) / 2, 0.5)
    for middle in np.linspace(low + edge, high - edge, _STAGES).tolist():
        below = float((counts * np.clip((middle - values[0]) / width, 0, 1)).sum())
        lower, upper = _mean_size(low, middle), _mean_size(middle, high)
        wanted = (upper - mean) / (upper - lower)
        reaches = _LEAST_SHARE < wanted < 1 - _LEAST_SHARE
        share = wanted if reaches else min(max(below, _LEAST_SHARE), 1 - _LEAST_SHARE)
        fit = below * math.log(share / (middle - low)) + (1 - below) * math.log((1 - share) / (high - middle))
        best = max(best, (reaches, fit, middle, share))
    return best[2], best[3]


def _mean_size(low: float, high: float) -> float:
    """Return the mean of 2 ** x for x uniform from `low` to `high`."""
    return (2**high - 2**low) / ((high - low) * math.log(2))


def fit_runs(run_s: FloatArray, sizes: FloatArray, rounds: int) -> dict[str, Any]:
    """Return the two gammas of the log run time and how the share of the short one changes with the size."""
    logs = np.log(np.maximum(run_s, 1.0) + 0.5)  # the middle of the second that a whole number stands for
    long = (logs > logs.mean()).astype(np.float64)
    gammas = [fit_gamma(logs, 1 - long), fit_gamma(logs, long)]
    slope, offset, before = 0.0, 0.5, -math.inf
    for _ in range(rounds):
        share = np.clip(slope * sizes + offset, _LEAST_SHARE, 1 - _LEAST_SHARE)
        short_log = np.log(share) + gamma_log_density(logs, *gammas[0])
        long_log = np.log1p(-share) + gamma_log_density(logs, *gammas[1])
        either = np.logaddexp(short_log, long_log)
        is_short = np.exp(short_log - either)
        if min(is_short.mean(), 1 - is_short.mean()) < _LEAST_SHARE:
            # One gamma says it all, and what the other has become means nothing.
            gammas, slope, offset = [fit_gamma(logs, np.ones(len(logs)))] * 2, 0.0, 0.5
            break
        if either.mean() - before < _SETTLED:
            break
        before = float(either.mean())
        gammas = [fit_gamma(logs, is_short), fit_gamma(logs, 1 - is_short)]
        slope, offset = _line(sizes, is_short)
    # The short one is the one of the shorter mean, whichever it was called at the start.
    if math.prod(gammas[0]) > math.prod(gammas[1]):
        gammas.reverse()
        slope, offset = -slope, 1 - offset
    (short_shape, short_scale), (long_shape, long_scale) = gammas
    return {
        "short_shape": short_shape, "short_scale": short_scale,
        "long_shape": long_shape, "long_scale": long_scale,
        "short_slope": min(max(slope, -1.0), 1.0), "short_offset": min(max(offset, -1.0), 2.0),
        "run_log_max": min(math.log(max(float(run_s.max()), 1.0) + 1), 20.0),
    }  # fmt: skip


def fit_gaps(gaps_s: FloatArray) -> dict[str, Any]:
    """Return the gamma of the log gap that has the log's mean gap and the log's mean of log gaps.

    Not the likeliest gamma: that one follows the jobs that came together, and its tail makes the pace several
    times slower than the log's. Jobs of the same second count as one second apart, as in the paper.
    """
    logs = np.log(np.maximum(gaps_s, 1.0) + 0.5)
    mean = float(logs.mean())
    ratio = math.log(float(np.exp(logs).mean())) / mean
    # The mean of exp(x) is (1 - scale) ** -shape, and shape is mean / scale; the ratio rises with the scale.
    low, high = 1e-3, 1 - 1e-9
    for _ in range(_BISECTIONS):
        scale = (low + high) / 2
        low, high = (scale, high) if -math.log1p(-scale) / scale < ratio else (low, scale)
    shape = min(mean / low, 1e4)
    return {"gap_shape": shape, "gap_scale": mean / shape, "gap_log_max": min(float(logs.max()) + 0.1, 20.0)}


def fit_gamma(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return shape and scale of the likeliest gamma, by Minka's approximation of the shape."""
    total = float(weights.sum()) or 1.0
    mean = max(float((weights * values).sum()) / total, 1e-2)
    spread = max(math.log(mean) - float((weights * np.log(values)).sum()) / total, 1e-9)
    shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    shape = min(max(shape, mean / 100, 0.05), 1e4, mean / 1e-3)
    return shape, min(max(mean / shape, 1e-3), 100.0)


def gamma_log_density(values: FloatArray, shape: float, scale: float) -> FloatArray:
    """Return the logarithm of the gamma's density at positive values."""
    norm = math.lgamma(shape) + shape * math.log(scale)
    density: FloatArray = (shape - 1) * np.log(values) - values / scale - norm
    return density


def draw_codes(weights: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` places of `weights`, each as often as its weight says."""
    up_to = np.cumsum(weights)
    codes: IntArray = np.searchsorted(up_to, rng.random(count) * up_to[-1], "right")
    return codes


def _nearest(numbers: FloatArray, values: FloatArray) -> IntArray:
    """Return the place of the number that is nearest to each value by its ratio; NaN is near to none."""
    known = np.flatnonzero(~np.isnan(numbers))
    if not len(known):
        return np.zeros(len(values), np.int64)
    logs, wanted = np.log2(numbers[known]), np.log2(values)
    after = np.minimum(np.searchsorted(logs, wanted), len(logs) - 1)
    before = np.maximum(after - 1, 0)
    places: IntArray = known[np.where(logs[after] - wanted < wanted - logs[before], after, before)]
    return places


def _line(sizes: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Return slope and offset of the straight line that comes nearest to `share`."""
    centred = sizes - sizes.mean()
    spread = float((centred**2).sum())
    slope = float((centred * share).sum()) / spread if spread else 0.0
    return slope, float(share.mean()) - slope * float(sizes.mean())
