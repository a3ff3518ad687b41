from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

from presage.clusters.charges import Share
from presage.clusters.gpus import GpuModel, find_gpu
from presage.clusters.systems import NodeType
from presage.errors import InputError, UnknownNameError
from presage.estimators import (
    Basis,
    EstimateRequest,
    Precision,
    Quantity,
    ScriptWorkload,
    Sharding,
    Spread,
    Target,
    TrainingOptions,
    TrainingWorkload,
    UnsupportedError,
)
from presage.estimators.training import walltime
from presage.estimators.training.devices import (
    DeviceModel,
    Rate,
    Sample,
    calibrated_device,
    fit_device,
    gpu_device,
    keep_device,
    node_device,
    on_cores,
    parse_device,
    shipped_core,
)
from presage.estimators.training.devices.fitting import Fit, fit_costs
from presage.estimators.training.measuring import StepTimes, calibrate, measure_each, measure_steps
from presage.estimators.training.networks import NETWORKS
from presage.estimators.training.profile import MemoryParts, OperatorClass, StepProfile
from presage.estimators.training.walltime import TrainingWalltime, product
from presage.testing.estimators import EstimatorContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GFLOP, GB = 10**9, 10**9
DEVICE = DeviceModel(
    "test core", {"matmul": Rate(2 / GFLOP, 1 / GB), "other": Rate(0, 3 / GB)}, call_s=0.001, factor=1.25,
    basis=Basis.MODELLED,
)  # fmt: skip
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def profile(**classes: tuple[int, float, float]) -> StepProfile:
    return StepProfile(
        digest="d", batch=64, parameter_count=10, parameter_bytes=4 * GB, peak_bytes=1, reserved_bytes=1,
        parts=MemoryParts(0, 0, 0, 0),
        classes={name.replace("_", "-"): OperatorClass(*each) for name, each in classes.items()},
    )  # fmt: skip


STEP = profile(matmul=(2, 3 * GFLOP, 4 * GB), norm=(5, 1 * GFLOP, 2 * GB))


def training(epochs: float | None = 50, samples: int | None = 20_000, **options: object) -> TrainingWorkload:
    return TrainingWorkload(
        "m", ((3,),), options=replace(TrainingOptions(batch=64), **options), samples=samples, epochs=epochs
    )


def asked(workload: TrainingWorkload, target: Target | None = None) -> EstimateRequest:
    return EstimateRequest(Quantity.WALLTIME, workload, target, STEP)


def gpu_target(gpu: GpuModel | None, nodes: int = 1, **settings: str) -> Target:
    node = NodeType("gpu-node", 40, 1, gpus=2)
    return Target("s", "p", node, Share(nodes, 20, gpus=2), gpu, settings=settings)


def cpu_target(cores: int, workers_node: NodeType | None = None) -> Target:
    node = workers_node or NodeType("plain", 48, 1)
    return Target("s", "p", node, Share(1, cores))


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> DeviceModel:
    """One core with round numbers, everywhere."""
    monkeypatch.setattr(walltime, "shipped_core", lambda: DEVICE)
    monkeypatch.setattr(walltime, "calibrated_device", lambda: None)
    return DEVICE


class TestDevice:
    def test_a_step_is_the_sum_of_its_operators(self) -> None:
        # matmul: 3 GFLOP at 2 s, 4 GB at 1 s, 2 calls; norm costs what `other` does: 2 GB at 3 s, 5 calls
        assert DEVICE.kind_seconds(STEP) == pytest.approx({"matmul": 10.002, "norm": 6.005})
        assert DEVICE.step(STEP).as_dict() == pytest.approx(Spread.around(16.007, 1.25).as_dict())

    def test_where_both_happen_at_once_the_longer_counts(self) -> None:
        at_once = replace(DEVICE, overlapped=True)
        assert at_once.kind_seconds(STEP) == pytest.approx({"matmul": 6.002, "norm": 6.005})

    def test_it_goes_to_json_and_back(self) -> None:
        assert parse_device(json.dumps(DEVICE.as_dict()), "x") == DEVICE

    @pytest.mark.parametrize(
        "content", ["", "[]", "nonsense", '{"name": "a"}', "[" * 100_000, '{"name": 1, "rates": {}, "call_s": -1}']
    )
    def test_a_document_that_is_no_device_is_refused(self, content: str) -> None:
        with pytest.raises(InputError, match="holds no device"):
            parse_device(content, "x.json")

    def test_a_calibrated_one_is_kept_by_host(self, tmp_path: Path) -> None:
        assert calibrated_device(tmp_path, "a/../b") is None
        path = keep_device(DEVICE, tmp_path, "a/../b")
        assert path.parent == tmp_path
        assert calibrated_device(tmp_path, "a/../b") == DEVICE
        assert calibrated_device(tmp_path, "other") is None

    def test_the_shipped_one_was_fitted_to_many_networks_and_says_how_well(self) -> None:
        core = shipped_core()
        assert core.workloads >= 16
        assert core.error is not None
        assert core.error < 0.2
        assert core.basis is Basis.MODELLED


class TestRooflines:
    def test_a_gpu_takes_the_longer_of_calculating_and_moving(self) -> None:
        gpu = GpuModel("g", 1, 1e12, {"fp32": 10e12, "bf16": 100e12})
        made = gpu_device(gpu, Precision.FP32)
        one = profile(matmul=(0, 75e12, 0), norm=(0, 1e15, 7e12))
        # 75 TFLOP at 75 % of 10 TFLOP/s, and 7 TB at 70 % of 1 TB/s; 45 % of the peak of tensor cores
        assert made.kind_seconds(one) == pytest.approx({"matmul": 10.0, "norm": 10.0})
        assert gpu_device(gpu, Precision.AMP_BF16).kind_seconds(one)["matmul"] == pytest.approx(75 / 45)
        assert made.basis is Basis.UNVERIFIED

    def test_a_precision_that_a_gpu_lacks_is_said(self) -> None:
        made = gpu_device(find_gpu("v100-32"), Precision.BF16)
        assert any("has no bf16" in note for note in made.notes)
        with pytest.raises(UnsupportedError, match="how fast the GPU x is"):
            gpu_device(GpuModel("x", 1, 1e12), Precision.FP32)

    def test_more_cores_are_faster_but_never_more_than_their_number(self) -> None:
        node = NodeType("n", 64, 1)
        times = [node_device(DEVICE, node, cores).step(STEP).p50 for cores in (1, 2, 4, 16, 64)]
        assert times == sorted(times, reverse=True)
        assert times[0] == pytest.approx(16.007)
        assert times[0] / times[1] < 2
        assert on_cores(DEVICE, 1) is DEVICE
        assert on_cores(DEVICE, 2).basis is Basis.UNVERIFIED

    def test_bandwidth_of_the_node_is_the_limit_of_moving(self) -> None:
        node = NodeType("n", 64, 1, memory_bandwidth_bytes_s=2e9)
        moving = profile(norm=(0, 0, 6 * GB))
        assert node_device(DEVICE, node, 1).step(moving).p50 == pytest.approx(18.0)
        assert node_device(DEVICE, node, 64).step(moving).p50 == pytest.approx(3.0)

    def test_a_faster_core_is_faster_in_what_it_calculates(self) -> None:
        slow = replace(DEVICE, core_gflops=50.0)
        fast = NodeType("n", 8, 1, core_gflops=100.0)
        calculating = profile(matmul=(0, 10 * GFLOP, 0))
        assert node_device(slow, fast, 1).step(calculating).p50 == pytest.approx(10.0)


class TestFitting:
    @staticmethod
    def samples(count: int, noise: float = 0.0) -> list[Sample]:
        rng = np.random.default_rng(3)
        truth = replace(DEVICE, rates={"matmul": Rate(1 / 40e9), "elementwise": Rate(0, 1 / 5e9)}, call_s=1e-5)
        made = []
        for number in range(count):
            one = profile(
                matmul=(int(rng.integers(10, 900)), rng.uniform(1, 40) * 1e9, 1e6),
                elementwise=(int(rng.integers(100, 3000)), 1e6, rng.uniform(0.1, 2) * 1e9),
            )
            seconds = truth.step(one).p50 * math.exp(noise * rng.standard_normal())
            made.append(Sample(one, seconds, f"kind {number}"))
        return made

    def test_known_costs_are_found_again(self) -> None:
        made = fit_device("fitted", self.samples(24))
        assert made.rates["matmul"].per_flop_s == pytest.approx(1 / 40e9, rel=0.02)
        assert made.rates["elementwise"].per_byte_s == pytest.approx(1 / 5e9, rel=0.05)
        assert made.error is not None
        assert made.error < 0.02

    def test_no_cost_is_negative_and_the_same_samples_give_the_same_device(self) -> None:
        first, second = (fit_device("fitted", self.samples(20, noise=0.3)) for _ in range(2))
        assert first == second
        assert all(rate.per_flop_s >= 0 and rate.per_byte_s >= 0 for rate in first.rates.values())

    def test_a_kind_that_no_network_has_costs_what_the_roofline_says_in_the_common_scale(self) -> None:
        made = fit_device("fitted", self.samples(20))
        # Four-fifths of the samples' time is matmul at half the prior's speed, so the common scale is above 1.
        assert 1 < made.rates["embedding"].per_byte_s * 8e9 < 3

    def test_intervals_widen_with_the_noise_and_cover_what_they_say(self) -> None:
        assert fit_costs(self.samples(30, 0.02)).factor < fit_costs(self.samples(30, 0.2)).factor
        noisy = fit_costs(self.samples(40, 0.2))
        fresh = self.samples(200, 0.2)[40:]
        device = fit_device("fitted", self.samples(40, 0.2))
        inside = [
            1 / noisy.factor <= each.seconds / device.step(each.profile).p50 <= noisy.factor for each in fresh
        ]
        assert 0.65 < np.mean(inside) < 0.95

    def test_the_factor_is_the_conformal_quantile(self) -> None:
        fit = Fit(np.ones(1), 0.1, np.log([1.1, 1 / 1.2, 1.3, 1 / 1.4]))
        assert fit.factor == pytest.approx(1.4)  # ceil(0.8 · 5) = 4th smallest
        assert fit.median_error == pytest.approx(np.median([1 - 1 / 1.1, 0.2, 1 - 1 / 1.3, 0.4]))

    def test_too_few_kinds_are_refused(self) -> None:
        alike = [replace(sample, kind="one") for sample in self.samples(30)]
        with pytest.raises(InputError, match="1 kinds of networks are too few"):
            fit_device("fitted", alike)


class TestContract(EstimatorContract):
    @pytest.fixture
    def estimator(self) -> TrainingWalltime:
        return TrainingWalltime()


@pytest.mark.usefixtures("core")
class TestEstimate:
    def test_time_is_steps_times_a_step_and_what_is_added(self) -> None:
        answer = TrainingWalltime().estimate(asked(training(), cpu_target(1)))
        steps = 50 * math.ceil(20_000 / 64)
        assert answer.details["steps"] == steps
        assert answer.spread.p50 == pytest.approx(steps * 16.007 * 1.05 + 30)
        assert answer.basis is Basis.UNVERIFIED
        assert any("30 s of start-up" in note for note in answer.notes)
        json.dumps(answer.as_dict())

    def test_more_to_learn_takes_longer_and_more_cores_shorten_it(self) -> None:
        estimator = TrainingWalltime()
        by_epochs = [
            estimator.estimate(asked(training(epochs=epochs), cpu_target(4))).spread for epochs in (1, 2, 20)
        ]
        by_cores = [estimator.estimate(asked(training(), cpu_target(cores))).spread for cores in (1, 8, 40)]
        assert by_epochs == sorted(by_epochs, key=lambda spread: spread.p50)
        assert by_cores == sorted(by_cores, key=lambda spread: -spread.p50)

    def test_without_a_target_it_is_this_machine_and_a_calibration_makes_it_surer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(walltime, "processors_to_use", lambda: 1)
        before = TrainingWalltime().estimate(asked(training()))
        monkeypatch.setattr(walltime, "calibrated_device", lambda: DEVICE)
        after = TrainingWalltime().estimate(asked(training()))
        assert (before.basis, after.basis) == (Basis.UNVERIFIED, Basis.MODELLED)
        assert any("not calibrated" in note for note in before.notes)
        assert not any("not calibrated" in note for note in after.notes)

    def test_workers_exchange_their_gradients(self) -> None:
        both = training(workers=2, sharding=Sharding.DDP)
        alone = TrainingWalltime().estimate(asked(training(), gpu_target(find_gpu("a100-80"))))
        within = TrainingWalltime().estimate(asked(both, gpu_target(find_gpu("a100-80"))))
        across = TrainingWalltime().estimate(asked(both, gpu_target(find_gpu("a100-80"), nodes=2)))
        stated = TrainingWalltime().estimate(
            asked(both, gpu_target(find_gpu("a100-80"), nodes=2, network_bytes_s="1 GB"))
        )
        assert alone.details["exchange_s"] == 0
        # 2·(2-1)/2 of 4 GB, half of it exposed
        assert within.details["exchange_s"] == pytest.approx(2e9 / 50e9)
        assert across.details["exchange_s"] == pytest.approx(2e9 / 12.5e9)
        assert stated.details["exchange_s"] == pytest.approx(2.0)
        sharded = asked(training(workers=2, sharding=Sharding.FSDP), gpu_target(find_gpu("a100-80")))
        assert TrainingWalltime().estimate(sharded).details["exchange_s"] == pytest.approx(3e9 / 50e9)
        assert within.details["steps"] == 50 * math.ceil(20_000 / 128)

    @pytest.mark.parametrize("missing", [{"epochs": None}, {"samples": None}, {"epochs": 0}, {"epochs": math.inf}])
    def test_without_samples_and_epochs_it_says_what_to_give(self, missing: dict[str, float | None]) -> None:
        with pytest.raises(UnsupportedError, match="--samples 20000 --epochs 50"):
            TrainingWalltime().estimate(asked(training(**missing)))

    def test_what_it_cannot_answer_it_declines(self) -> None:
        script = EstimateRequest(Quantity.WALLTIME, ScriptWorkload("a.sh"))
        with pytest.raises(UnsupportedError, match="batch script"):
            TrainingWalltime().estimate(script)
        with pytest.raises(UnsupportedError, match="Nothing is known of the GPUs of gpu-node"):
            TrainingWalltime().estimate(asked(training(), gpu_target(None)))

    def test_without_a_profile_of_its_batch_the_step_is_traced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []

        def trace(workload: TrainingWorkload, device: str) -> StepProfile:
            seen.append((workload.options.batch, device))
            return STEP

        monkeypatch.setattr(walltime, "profile_step", trace)
        TrainingWalltime().estimate(EstimateRequest(Quantity.WALLTIME, training(), cpu_target(1)))
        TrainingWalltime().estimate(asked(training(batch=32), gpu_target(find_gpu("h100"))))
        assert seen == [(64, "cpu"), (32, "gpu")]

    def test_a_profile_that_could_not_be_checked_makes_an_answer_unverified(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(walltime, "processors_to_use", lambda: 1)
        monkeypatch.setattr(walltime, "calibrated_device", lambda: DEVICE)
        request = replace(asked(training()), profile=replace(STEP, verified=False))
        assert TrainingWalltime().estimate(request).basis is Basis.UNVERIFIED


@pytest.mark.usefixtures("core")
class TestRefine:
    times = StepTimes((0.5, 0.52, 0.48), (0.5, 0.52, 0.48), startup_s=0.1)

    def test_measured_steps_take_the_place_of_the_model(self) -> None:
        answer = TrainingWalltime().refine(asked(training()), self.times)
        assert answer.basis is Basis.MEASURED
        assert answer.details["step_s"]["p50"] == 0.5
        assert answer.spread.p50 == pytest.approx(15_650 * 0.5 * 1.05 + 30)
        before = TrainingWalltime().estimate(asked(training())).spread
        assert answer.spread.p90 / answer.spread.p50 < before.p90 / before.p50

    def test_for_another_target_they_correct_the_model(self) -> None:
        target = gpu_target(find_gpu("a100-80"))
        plain = TrainingWalltime().estimate(asked(training(), target))
        answer = TrainingWalltime().refine(asked(training(), target), self.times)
        assert answer.details["correction"] == pytest.approx(0.5 / 16.007)
        ratio = answer.details["step_s"]["p50"] / plain.details["step_s"]["p50"]
        assert ratio == pytest.approx(0.5 / 16.007)
        assert answer.basis is Basis.UNVERIFIED

    def test_steps_that_vary_make_it_less_sure(self) -> None:
        calm, wild = walltime.measured_step(self.times), StepTimes((0.2, 0.5, 1.0), (0.2, 0.5, 1.0), 0.0)
        assert calm.p90 / calm.p50 < walltime.measured_step(wild).p90 / walltime.measured_step(wild).p50

    def test_on_a_busy_machine_cpu_time_counts(self) -> None:
        busy = StepTimes((0.5, 0.5), (0.9, 1.1), 0.0)
        assert busy.shared
        assert busy.seconds == 0.5
        assert StepTimes((1.0, 1.0), (0.52, 0.48), 0.0, threads=2).seconds == 0.5


def test_products_of_spreads_multiply_medians_and_add_widths_as_squares() -> None:
    made = product(Spread.around(10, 2), Spread.around(3, 2))
    assert made.as_dict() == pytest.approx(Spread.around(30, 2 ** math.sqrt(2)).as_dict())
    assert product(Spread(0, 0, 1), Spread.exactly(2)) == Spread(0, 0, 2)


class TestNetworks:
    def test_there_are_enough_kinds_and_no_two_of_a_name(self) -> None:
        assert len({network.kind for network in NETWORKS}) >= 18
        assert len({network.name for network in NETWORKS}) == len(NETWORKS)

    def test_naming_them_needs_no_torch(self) -> None:
        program = "import sys, presage.estimators.training.networks; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@needs_torch
class TestMeasuring:
    source = """
import torch
def build(width=8):
    print("said while it was built")
    return torch.nn.Linear(width, 4)
def broken():
    raise RuntimeError("no such layer")
def ends():
    import os
    os._exit(3)
"""

    def workload(self, folder: Path, function: str, **options: object) -> TrainingWorkload:
        (folder / "net.py").write_text(self.source)
        return TrainingWorkload(
            f"{folder / 'net.py'}:{function}", ((8,),), options=replace(TrainingOptions(batch=2), **options)
        )

    def test_steps_are_taken_and_timed_until_code_fails(self, tmp_path: Path) -> None:
        measured = measure_each(
            [self.workload(tmp_path, "build"), self.workload(tmp_path, "broken")], steps=4, warm_up=1
        )
        times = next(measured)
        assert len(times.cpu_s) == len(times.wall_s) == 4
        assert all(seconds > 0 for seconds in times.wall_s)
        with pytest.raises(InputError, match="no such layer"):
            next(measured)

    def test_a_process_that_ends_itself_is_an_error_too(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="ended with status"):
            measure_steps(self.workload(tmp_path, "ends"), steps=1)

    def test_what_one_device_cannot_show_is_declined_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedError, match="several workers"):
            measure_steps(self.workload(tmp_path, "build", workers=2))


class TestCalibration:
    def test_every_network_is_traced_once_and_measured_in_every_round(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        names = list({network.kind: network.name for network in NETWORKS}.values())[:9]
        truth = {name: 0.01 * (number + 1) for number, name in enumerate(names)}
        order: list[str] = []

        def measure(workloads: list[TrainingWorkload], steps: int) -> Iterator[StepTimes]:
            for workload in workloads:
                order.append(workload.name)
                yield StepTimes((truth[workload.name],) * steps, (9.0,) * steps, 0.0)

        def trace(workload: TrainingWorkload) -> StepProfile:
            return profile(matmul=(1, truth[workload.name] * 40e9, 0))

        monkeypatch.setattr(calibrate, "measure_each", measure)
        monkeypatch.setattr(calibrate, "profile_step", trace)
        told: list[tuple[int, int]] = []
        device = calibrate.calibrate_device(
            lambda done, total: told.append((done, total)), networks=names, folder=tmp_path
        )
        assert order == [*names, *reversed(names)]
        assert told == [(done, 27) for done in range(28)]
        assert device.rates["matmul"].per_flop_s == pytest.approx(1 / 40e9, rel=0.01)
        assert calibrated_device(tmp_path) == device

    def test_a_network_that_is_none_is_refused(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'vgg-64'"):
            calibrate.calibrate_device(networks=["vgg64"])
