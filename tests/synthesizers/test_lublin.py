from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UsageError
from presage.synthesizers import SYNTHESIZERS, Privacy, Request, Training, load_synthesizer, sample
from presage.synthesizers.lublin import FittedLublin, fit_gamma, fit_gaps, fit_runs, fit_sizes
from presage.testing.traces import make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model


@pytest.fixture(scope="module")
def log() -> Trace:
    """8,000 jobs of the paper's own model with other parameters than its own."""
    settings = {
        "processors": 128, "serial_share": 0.4, "power_of_two_share": 0.3, "short_shape": 6.0, "short_scale": 0.6,
        "long_shape": 200.0, "long_scale": 0.045, "short_slope": -0.004, "short_offset": 0.8, "gap_shape": 14.0,
        "gap_scale": 0.35, "users": 20, "estimate": "modal", "time_zone": "Europe/Berlin",
    }  # fmt: skip
    return make_model("lublin", settings).generate(8000, seed=3)


@pytest.fixture(scope="module")
def model(log: Trace) -> FittedLublin:
    return FittedLublin.train(log)


def test_it_is_what_the_registry_names() -> None:
    assert SYNTHESIZERS.get("lublin") is FittedLublin


def test_it_finds_the_parameters_of_the_model_that_made_the_log(model: FittedLublin) -> None:
    fitted = model.record["parameters"]

    assert fitted["processors"] == 128
    assert fitted["serial_share"] == pytest.approx(0.4, abs=0.02)
    assert 0.3 < fitted["power_of_two_share"] < 0.4  # of the others, 2 and 4 are powers of two by chance
    assert fitted["short_shape"] * fitted["short_scale"] == pytest.approx(3.6, rel=0.05)
    assert fitted["long_shape"] * fitted["long_scale"] == pytest.approx(9.0, rel=0.02)
    assert fitted["short_offset"] == pytest.approx(0.8, abs=0.05)
    assert fitted["short_slope"] == pytest.approx(-0.004, abs=0.001)
    assert fitted["gap_shape"] * fitted["gap_scale"] == pytest.approx(4.9, rel=0.05)


def test_what_it_draws_is_like_the_log(log: Trace, model: FittedLublin) -> None:
    drawn = sample(model, Request(jobs=8000, seed=1)).jobs

    assert drawn["cpus_req"].mean() == pytest.approx(log.jobs["cpus_req"].mean(), rel=0.1)
    assert np.log1p(drawn["run_s"]).mean() == pytest.approx(np.log1p(log.jobs["run_s"]).mean(), rel=0.05)
    assert span_ms(drawn) == pytest.approx(span_ms(log.jobs), rel=0.15)
    busiest, real = hours(drawn), hours(log.jobs)
    assert np.corrcoef(busiest, real)[0, 1] > 0.9


def test_values_were_seen_in_the_log_and_runs_keep_their_limits(log: Trace, model: FittedLublin) -> None:
    drawn = sample(model, Request(jobs=3000, seed=2)).jobs

    for column in ("cpus_req", "limit_s"):
        assert set(drawn[column]) <= set(log.jobs[column])
    assert drawn["user"].n_unique() == 20
    assert (drawn["run_s"] <= drawn["limit_s"]).all()
    # Not all of them at the longest limit, as if none else were long enough.
    assert drawn["limit_s"].n_unique() > 10


def test_the_same_seed_draws_the_same_jobs_also_from_a_folder(model: FittedLublin, tmp_path: Path) -> None:
    model.save(tmp_path / "kept")
    again = load_synthesizer(tmp_path / "kept")
    request = Request(jobs=500, seed=5)

    assert sample(again, request).jobs.equals(sample(model, request).jobs)
    assert not sample(again, Request(jobs=500, seed=6)).jobs.equals(sample(model, request).jobs)


def test_a_damaged_folder_is_told(model: FittedLublin, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model.save(tmp_path)
    arrays = load_file(tmp_path / "weights.safetensors")
    save_file({**arrays, "parameters": arrays["parameters"] * -1}, tmp_path / "weights.safetensors")

    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)


def test_it_cannot_promise_privacy(log: Trace) -> None:
    with pytest.raises(UsageError, match="tvae, row-transformer"):
        FittedLublin.train(log, training=Training(privacy=Privacy(1.0, 1e-5)))


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"cpus_req": [1.0]},
        {"cpus_req": [0.5, 0.25, 1.0]},
        {"cpus_req": [6.0]},
        {"cpus_req": [None, 3.0]},
        {"cpus_req": [None, 0.0]},
        {"cpus_req": [0.5, 1.5, 100.0], "limit_s": [None, 60.0, 3600.0], "user": [None, "u1"]},
        {"cpus_req": [2.0, 3e9], "limit_s": [1.0]},
    ],
)
@pytest.mark.parametrize("run_s", [0.0, 7.0, None])
def test_odd_logs_are_learned_too(columns: dict[str, list[Any]], run_s: float | None) -> None:
    rows = [
        {
            "submit_ms": 1000 * (place // 3) ** 2,
            "run_s": float(place % 50) if run_s is None else run_s,
            **{name: values[place % len(values)] for name, values in columns.items()},
        }
        for place in range(300)
    ]
    drawn = sample(FittedLublin.train(make_trace(*rows)), Request(jobs=400, seed=1)).jobs

    assert len(drawn) == 400
    assert drawn["run_s"].min() >= 0  # type: ignore[operator]  # a number
    for name, values in columns.items():
        assert set(drawn[name]) <= set(values)


def test_missing_sizes_are_missing_as_often() -> None:
    rows = [
        {"submit_ms": 60_000 * place, "run_s": 10.0 + place, "cpus_req": None if place % 4 == 0 else 8.0}
        for place in range(400)
    ]
    drawn = sample(FittedLublin.train(make_trace(*rows)), Request(jobs=4000, seed=1)).jobs

    assert drawn["cpus_req"].null_count() / len(drawn) == pytest.approx(0.25, abs=0.03)


def test_the_likeliest_gamma_is_found() -> None:
    values = np.random.default_rng(0).gamma(7.0, 0.5, 100_000)
    shape, scale = fit_gamma(values, np.ones(len(values)))

    assert shape == pytest.approx(7.0, rel=0.03)
    assert scale == pytest.approx(0.5, rel=0.03)


def test_gaps_keep_their_mean_and_the_mean_of_their_logarithms() -> None:
    gaps_s = np.concatenate([np.full(500, 20.0), np.full(500, 2000.0)])
    fitted = fit_gaps(gaps_s)
    drawn = np.random.default_rng(0).gamma(fitted["gap_shape"], fitted["gap_scale"], 400_000)

    assert drawn.mean() == pytest.approx(np.log(gaps_s + 0.5).mean(), rel=0.01)
    assert np.exp(drawn).mean() == pytest.approx(1010.5, rel=0.05)


def test_sizes_of_one_kind_only() -> None:
    assert fit_sizes(np.ones(10)) == {"processors": 1, "serial_share": 1.0, "power_of_two_share": 0.0}
    fitted = fit_sizes(np.array([1.0, 2.0, 4.0, 6.0]))
    assert fitted["serial_share"] == 0.25
    assert fitted["power_of_two_share"] == 0.5


def test_the_short_run_times_are_those_that_are_short() -> None:
    run_s = np.repeat([5.0, 50_000.0], [900, 100])
    fitted = fit_runs(run_s, np.repeat([64.0, 1.0], [900, 100]), rounds=50)

    assert fitted["short_shape"] * fitted["short_scale"] == pytest.approx(np.log(5.5), rel=0.01)
    assert fitted["short_slope"] == pytest.approx(1 / 63, rel=0.05)  # wide jobs are the short ones here


def test_runs_of_one_length_stay_near_it() -> None:
    fitted = fit_runs(np.full(500, 60.0), np.ones(500), rounds=50)

    for which in ("short", "long"):
        assert fitted[f"{which}_shape"] * fitted[f"{which}_scale"] == pytest.approx(np.log(60.5))
        assert np.sqrt(fitted[f"{which}_shape"]) * fitted[f"{which}_scale"] < 0.1


def span_ms(jobs: pl.DataFrame) -> int:
    times = jobs["submit_ms"]
    return int(times[-1] - times[0])


def hours(jobs: pl.DataFrame) -> np.ndarray[Any, Any]:
    local = jobs["submit_ms"].cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone("Europe/Berlin").dt.hour()
    return np.bincount(local.to_numpy(), minlength=24)
