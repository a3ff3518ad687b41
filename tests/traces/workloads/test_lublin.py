from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from presage.errors import UsageError
from presage.testing import WorkloadContract
from presage.traces import Trace, read_trace
from presage.traces.workloads import make_model
from presage.traces.workloads.lublin import POPULAR_LIMITS_S, gamma_cdf, modal_limits_s

DAY_S = 86_400


class TestLublin(WorkloadContract):
    name = "lublin"
    settings = {"processors": 256, "users": 20, "estimate": "modal"}  # noqa: RUF012  (the suite reads it only)
    bad_settings = (
        {"processors": 0},
        {"processors": 2.5},
        {"processors": "many"},
        {"estimate": "modals"},
        {"users": -1},
        {"serial_share": 1.2},
        {"run_log_max": 1.0},
        {"gap_scale": 50.0},
    )


@pytest.fixture(scope="module")
def large() -> Trace:
    return make_model("lublin", {"processors": 256}).generate(200_000, seed=11)


def gamma_density(x: np.ndarray, shape: float, scale: float) -> np.ndarray:
    """The density up to a factor, from its definition."""
    return np.exp((shape - 1) * np.log(x) - x / scale)


def mean_under(x: np.ndarray, density: np.ndarray, values: np.ndarray) -> float:
    return float(np.trapezoid(density * values, x) / np.trapezoid(density, x))


def hours_of(trace: Trace) -> np.ndarray:
    seconds = (trace.jobs["submit_ms"].to_numpy() - trace.manifest.origin_ms) // 1000
    return np.bincount(seconds // 3600 % 24, minlength=24) / len(trace)


def test_sizes_are_serial_powers_of_two_and_others(large: Trace) -> None:
    size = large.jobs["cpus_req"].to_numpy()
    assert np.mean(size == 1) == pytest.approx(0.244, abs=0.004)
    # log2 of the other parallel jobs, .18 of all, is uniform with density .86 / 4.7 below 5.5 and .14 / 2.5 above;
    # they round to a power of two 2**k where it lies within log2((2**k ± .5)).
    low, high = np.log2(2.0 ** np.arange(1, 9) - 0.5), np.log2(2.0 ** np.arange(1, 9) + 0.5)
    low[0], high[-1] = 0.8, 8.0
    chance = sum((b - a) * (0.86 / 4.7 if b < 5.5 else 0.14 / 2.5) for a, b in zip(low, high, strict=True))
    power = (size > 1) & (np.log2(size) % 1 == 0)
    assert power.mean() == pytest.approx(0.576 + 0.18 * chance, abs=0.005)
    # Powers of two above 2**5.5: .14 of them, but rounding takes those between 5.5 and 6 to 64 anyway.
    assert np.mean(size[power] > 2**5.5) == pytest.approx(0.14, abs=0.01)


def test_run_times_have_the_quantiles_of_their_mixture(large: Trace) -> None:
    """The mixture's distribution function, integrated numerically for every size."""
    x = np.linspace(1e-6, 12, 20_001)
    parts = [np.cumsum(gamma_density(x, a, b)) for a, b in ((4.2, 0.94), (312, 0.03))]
    # Truncation at 12 draws anew, component and all: both parts keep their untruncated weight below 12.
    beyond = [np.linspace(12, 60, 20_001), np.linspace(12, 60, 20_001)]
    kept = [
        part[-1] * (x[1] - x[0]) / (part[-1] * (x[1] - x[0]) + np.trapezoid(gamma_density(more, a, b), more))
        for part, more, (a, b) in zip(parts, beyond, ((4.2, 0.94), (312, 0.03)), strict=True)
    ]
    size = large.jobs["cpus_req"].to_numpy()
    short = np.clip(0.78 - 0.0054 * size, 0, 1)
    weight = short * kept[0] / (short * kept[0] + (1 - short) * kept[1])
    mixture = weight.mean() * parts[0] / parts[0][-1] + (1 - weight.mean()) * parts[1] / parts[1][-1]
    run_s = np.sort(large.jobs["run_s"].to_numpy())
    # Run times are cut to whole seconds: compare at the upper end of each second.
    here = np.searchsorted(run_s, np.arange(1, 150_000), side="right") / len(run_s)
    there = np.interp(np.log(np.arange(2, 150_001)), x, mixture)
    assert np.abs(here - there).max() < 0.005
    assert run_s[0] >= 1
    assert run_s[-1] <= np.exp(12)


def test_wide_jobs_run_longer(large: Trace) -> None:
    size, run_s = large.jobs["cpus_req"].to_numpy(), large.jobs["run_s"].to_numpy()
    # Above .78 / .0054 = 144 processors all jobs are of the long kind: around exp(312 * .03).
    assert np.median(run_s[size > 145]) == pytest.approx(np.exp(9.36), rel=0.05)
    assert np.median(run_s[size == 1]) < 100


def test_gaps_have_the_mean_of_their_gamma(large: Trace) -> None:
    x = np.linspace(1e-6, 13, 20_001)
    density = gamma_density(x, 10.2303 * 1.0225, 0.4871)
    mean_s, square = (mean_under(x, density, np.exp(power * x)) for power in (1, 2))
    submit_ms = large.jobs["submit_ms"]
    observed_s = (submit_ms[-1] - submit_ms[0]) / 1000 / (len(large) - 1)
    error_s = np.sqrt(square - mean_s**2) / np.sqrt(len(large))
    assert abs(observed_s - mean_s) < 4 * error_s
    assert error_s / mean_s < 0.02


def test_the_day_peaks_after_noon_and_is_quiet_before_dawn(large: Trace) -> None:
    # The gamma's mode, (8.1737 - 1) * 3.9631 = 28.4 half hours from midnight, is a quarter past two; the cycle is
    # cut at slot 11, counted from 1: five o'clock is the quietest.
    hours = hours_of(large)
    assert hours.argmax() in {12, 13, 14, 15}  # nearly level around the mode
    assert hours.argmin() in {4, 5}
    assert hours[13:15].mean() / hours[4:6].mean() > 6
    x = np.linspace(1e-6, 58.5, 100_001)
    density = gamma_density(x, 8.1737, 3.9631)
    # Slot i, centred on i, is half hour i - 1: two o'clock, half hours 28 and 29, is slots 29 and 30.
    two = (x >= 28.5) & (x < 30.5)
    whole = (x >= 10.5) & (x < 58.5)
    assert hours[14] == pytest.approx(density[two].sum() / density[whole].sum(), abs=0.006)


def test_the_daily_rhythm_survives_a_change_of_load() -> None:
    calm, busy = (make_model("lublin", {"load": load}).generate(100_000, seed=2) for load in (0.2, 2.0))
    assert np.abs(hours_of(calm) - hours_of(busy)).max() < 0.02
    assert calm.jobs["run_s"].equals(busy.jobs["run_s"])


def test_the_rhythm_follows_summer_time() -> None:
    model = make_model("lublin", {"time_zone": "America/New_York", "load": 0.9})
    jobs = model.generate(60_000, seed=4).jobs
    local = jobs["submit_ms"].cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone("America/New_York")
    for months in ((6, 7, 8), (12, 1, 2)):
        hours = local.filter(local.dt.month().is_in(months)).dt.hour().to_numpy()
        counts = np.bincount(hours, minlength=24)
        assert counts[3:6].sum() < 0.3 * counts[12:15].sum()
        assert counts.argmax() in range(11, 18)


@pytest.mark.parametrize("processors", [1, 2, 3, 7, 100, 1_000_000])
def test_any_machine_size_holds_its_jobs(processors: int) -> None:
    size = make_model("lublin", {"processors": processors}).generate(20_000, seed=1).jobs["cpus_req"]
    assert size.min() == 1
    assert size.max() <= processors
    assert (size == size.round()).all()
    if processors == 100:
        assert size.max() > 64  # sizes between the powers of two occur, and 128 is not one of this machine's


def test_requested_times_are_none_exact_or_round() -> None:
    made = {
        name: make_model("lublin", {"estimate": name}).generate(20_000, seed=3)
        for name in ("none", "exact", "modal")
    }
    assert not made["none"].manifest.has["limits"]
    assert made["none"].manifest.notes == ()
    assert made["exact"].jobs["limit_s"].equals(made["exact"].jobs["run_s"])
    modal = made["modal"].jobs
    assert (modal["limit_s"] >= modal["run_s"]).all()
    assert set(modal["limit_s"]) <= set(POPULAR_LIMITS_S)
    assert "estimate=modal" in made["modal"].manifest.notes[0]
    # Everything else stays as it was: each quantity has its own stream of random numbers.
    for trace in made.values():
        assert trace.jobs["submit_ms"].equals(modal["submit_ms"])
        assert trace.jobs["run_s"].equals(modal["run_s"])


def test_requested_times_go_on_beyond_the_popular_ones() -> None:
    limits_s = modal_limits_s(np.random.default_rng(0), np.array([299.0, 2.5 * DAY_S, 100 * DAY_S]))
    assert limits_s[0] >= 300
    assert limits_s[1] == 3 * DAY_S
    assert limits_s[2] == 100 * DAY_S


def test_few_users_have_most_jobs() -> None:
    jobs = make_model("lublin", {"users": 100}).generate(50_000, seed=3).jobs
    share = jobs["user"].value_counts(sort=True, normalize=True)
    # Zipf's first share is 1 / (1 + 1/2 + … + 1/100) = 1 / 5.187.
    assert share.row(0) == ("user1", pytest.approx(1 / 5.187, abs=0.01))
    assert jobs["user"].n_unique() == 100


def test_the_gamma_distribution_function() -> None:
    x = np.array([0.0, 0.5, 1.0, 3.0, 20.0, 500.0])
    assert gamma_cdf(x, 1.0) == pytest.approx(1 - np.exp(-x), abs=1e-14)  # the exponential distribution
    assert gamma_cdf(x, 2.0) == pytest.approx(1 - (1 + x) * np.exp(-x), abs=1e-14)  # the sum of two
    assert gamma_cdf(np.array([9999.67]), 10_000.0) == pytest.approx(
        0.5, abs=1e-3
    )  # its median is near shape - 1/3


def test_parameters_that_could_never_be_drawn_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"hardly ever give a value below 2\b.*Lower long_scale, or raise run_log_max"
    ):
        make_model("lublin", {"run_log_max": 2})


def test_a_span_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(UsageError, match=r"would arrive over .* years"):
        make_model("lublin", {"load": 1e-9, "processors": 10}).generate(1000)


@pytest.mark.shared_data
def test_looks_like_the_sample_of_the_authors_own_program(shared_data: Path) -> None:
    """10,000 jobs for 256 processors, against 20 seeds of ours.

    Tolerances are four standard deviations of 10,000-job samples, measured on our seeds. Gaps are so
    heavy-tailed that their mean swings by 7 %; the sample's is 2.3 deviations below ours.
    """
    sample = read_trace(shared_data / "model-lublin_256.swf.gz", format="swf").jobs
    assert len(sample) == 10_000
    theirs = statistics_of(
        sample["submit_ms"].to_numpy() / 1000, sample["run_s"].to_numpy(), sample["cpus_alloc"].to_numpy()
    )
    runs = []
    for seed in range(20):
        trace = make_model("lublin", {}).generate(10_000, seed=seed)
        submit_s = (trace.jobs["submit_ms"].to_numpy() - trace.manifest.origin_ms) / 1000
        runs.append(statistics_of(submit_s, trace.jobs["run_s"].to_numpy(), trace.jobs["cpus_req"].to_numpy()))
    for key, value in theirs.items():
        ours = np.array([run[key] for run in runs])
        assert abs(value - ours.mean()) < 4 * ours.std(ddof=1), key


def statistics_of(submit_s: np.ndarray, run_s: np.ndarray, size: np.ndarray) -> dict[str, float]:
    gap_s = np.diff(submit_s)
    hours = submit_s // 3600 % 24
    return {
        "serial": float(np.mean(size == 1)),
        "power of two": float(np.mean((size > 1) & (np.log2(size) % 1 == 0))),
        "mean size": float(size.mean()),
        "mean run": float(run_s.mean()),
        **{f"run at {q}": float(np.quantile(run_s, q)) for q in (0.25, 0.5, 0.75, 0.9)},
        "mean gap": float(gap_s.mean()),
        **{f"gap at {q}": float(np.quantile(gap_s, q)) for q in (0.25, 0.5, 0.75, 0.9)},
        "by night": float(np.mean(hours < 6)),
        "by morning": float(np.mean((hours >= 6) & (hours < 12))),
        "by afternoon": float(np.mean((hours >= 12) & (hours < 18))),
    }
