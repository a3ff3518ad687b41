"""Time of a training: a step by its operators on a device, or as measured, times the number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.spread import Spread, total
from presage.estimators.training.cache import profile_step
from presage.estimators.training.devices import (
    DeviceModel,
    calibrated_device,
    gpu_device,
    node_device,
    on_cores,
    shipped_core,
)
from presage.estimators.workloads import Sharding, Target, TrainingWorkload
from presage.fanout import processors_to_use
from presage.units import parse_bytes
from presage.wording import counted

if TYPE_CHECKING:
    from presage.estimators.training.measuring import StepTimes
    from presage.estimators.training.profile import StepProfile

START_UP = Spread(10.0, 30.0, 120.0)
"""Seconds until the first step: imports, data sets, the network. An assumption."""
BESIDES = Spread(1.0, 1.05, 1.2)
"""What waiting for data, evaluation and checkpoints make of the time of all steps. An assumption."""
ANOTHER_RUN = 1.15
"""Within this factor of a few measured steps lie the steps of 80 % of later runs."""
NETWORK_BYTES_S = 12.5e9
"""Between nodes: 100 Gbit/s. An assumption; `network_bytes_s` of the target's settings says better."""
LINK_BYTES_S = {True: 50e9, False: 10e9}
"""Between workers of one node, by whether they are GPUs. An assumption."""
EXPOSED = 0.5
"""Share of the exchange of gradients that the backward pass does not hide. An assumption."""
_Z90 = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True)
class _Exchange:
    seconds: float
    note: str = ""


class TrainingWalltime(Estimator):
    """Seconds from start to end of a training.

    A profile in the request saves the tracing. `details` has the steps, the time of one, what the device spends on
    which operators, and the assumptions on start-up, data and exchange that are added.
    """

    name = "training-walltime"
    quantity = Quantity.WALLTIME

    def estimate(self, request: EstimateRequest) -> Estimate:
        workload = _training(request)
        steps = _steps(workload)
        profile = _profile(request, workload)
        device = device_for(request.target, workload)
        exchange = exchange_of(profile, workload, request.target)
        step = device.step(profile).plus(exchange.seconds)
        basis = device.basis if profile.verified and not exchange.seconds else Basis.UNVERIFIED
        notes = (*device.notes, *((exchange.note,) if exchange.note else ()))
        details = {
            "device": device.name,
            "by_kind_s": device.kind_seconds(profile),
            "exchange_s": exchange.seconds,
        }
        return self._answer(step, steps, basis, notes, details)

    def refine(self, request: EstimateRequest, times: StepTimes) -> Estimate:
        """Return the estimate with a few real steps, taken on this machine, instead of the device's model.

        For another target than this machine they say how much faster or slower this very network is than the
        model has it, and the target's estimate is corrected by that. Raises as `estimate` does.
        """
        workload = _training(request)
        steps = _steps(workload)
        if request.target is None:
            taken, threads = counted(len(times.wall_s), "step"), counted(times.threads, "thread")
            notes = [f"{taken} taken on this machine, with {threads}."]
            if times.shared:
                notes.append("The machine was busy with other things; CPU time was taken for the clock's.")
            details = {"device": "this machine", "measured_steps": len(times.wall_s), "threads": times.threads}
            return self._answer(measured_step(times), steps, Basis.MEASURED, tuple(notes), details)
        profile = _profile(request, workload)
        on_cpu = profile if profile.device == "cpu" else profile_step(workload, device="cpu")
        here = on_cores(calibrated_device() or shipped_core(), times.threads).step(on_cpu).p50
        correction = times.seconds / here if here > 0 else 1.0
        device = device_for(request.target, workload)
        exchange = exchange_of(profile, workload, request.target)
        step = device.step(profile).times(correction).plus(exchange.seconds)
        note = f"Steps on this machine took {correction:.2f} times what was modelled for it; so it is taken here."
        details = {"device": device.name, "correction": correction, "exchange_s": exchange.seconds}
        return self._answer(step, steps, Basis.UNVERIFIED, (*device.notes, note), details)

    def _answer(
        self, step: Spread, steps: float, basis: Basis, notes: tuple[str, ...], details: dict[str, Any]
    ) -> Estimate:
        spread = total([product(step, BESIDES).times(steps), START_UP])
        assumed = (
            f"Added: {START_UP.p50:g} s of start-up and {BESIDES.p50 - 1:.0%} (up to {BESIDES.p90 - 1:.0%}) "
            "for data, evaluation and checkpoints."
        )
        parts = {
            "steps": steps, "step_s": step.as_dict(), "start_up_s": START_UP.as_dict(),
            "besides": BESIDES.as_dict(), **details,
        }  # fmt: skip
        return Estimate(self.quantity, spread, basis, self.name, self.version, (*notes, assumed), parts)


def measured_step(times: StepTimes) -> Spread:
    """Return the time of a step in a later run, from a few that were measured."""
    scatter = _Z90 * times.variation / math.sqrt(max(1, len(times.wall_s)))
    return Spread.around(times.seconds, math.exp(math.hypot(math.log(ANOTHER_RUN), scatter)))


def device_for(target: Target | None, workload: TrainingWorkload) -> DeviceModel:
    """Return the device on which one worker runs: a GPU, a share of a node's cores, or this machine.

    Raises UnsupportedError for a GPU of which nothing is known.
    """
    if target is None:
        return this_machine(processors_to_use())
    if target.share.gpus:
        if target.gpu is None:
            raise UnsupportedError(
                f"Nothing is known of the GPUs of {target.node_type.name}",
                remedy="Name their model in the catalogue",
            )
        return gpu_device(target.gpu, workload.options.precision)
    on_a_node = max(1, -(-workload.options.workers // max(1, target.share.nodes)))
    return node_device(shipped_core(), target.node_type, max(1, target.share.cores // on_a_node))


def this_machine(cores: int) -> DeviceModel:
    """Return so many cores of this machine: calibrated, or else taken to be like the ones that were measured."""
    calibrated = calibrated_device()
    if calibrated is not None:
        return on_cores(calibrated, cores)
    core = shipped_core()
    note = "This machine was not calibrated; `presage estimate calibrate` would make it surer."
    return replace(on_cores(core, cores), basis=Basis.UNVERIFIED, notes=(*on_cores(core, cores).notes, note))


def exchange_of(profile: StepProfile, workload: TrainingWorkload, target: Target | None) -> _Exchange:
    """Return what a step spends on bringing the gradients of several workers together.

    A ring moves 2·(n-1)/n of them past every worker; sharded weights are gathered twice besides, and gradients
    scattered once.
    """
    workers, sharding = workload.options.workers, workload.options.sharding
    if workers <= 1 or sharding is Sharding.NONE:
        return _Exchange(0.0)
    times = 3 if sharding is Sharding.FSDP else 2
    moved = times * (workers - 1) / workers * profile.parameter_bytes
    speed = link_bytes_s(target)
    note = (
        f"Exchange between {workers} workers: {speed / 1e9:g} GB/s, half of it hidden behind the backward pass; "
        "neither was measured."
    )
    return _Exchange(EXPOSED * moved / speed, note)


def link_bytes_s(target: Target | None) -> float:
    """Return how fast workers exchange: as the target's settings say, or else as is usual."""
    stated = target.settings.get("network_bytes_s") if target else None
    if stated:
        return float(max(1, parse_bytes(stated)))
    if target is not None and target.share.nodes > 1:
        return NETWORK_BYTES_S
    return LINK_BYTES_S[bool(target and target.share.gpus)]


def product(first: Spread, second: Spread) -> Spread:
    """Return the product of independent amounts: medians multiply; distances in logarithms add as squares."""
    median = first.p50 * second.p50
    if median <= 0:
        return Spread(0.0, 0.0, first.p90 * second.p90)
    below = math.hypot(*(math.log(each.p50 / max(each.p10, each.p50 * 1e-9)) for each in (first, second)))
    above = math.hypot(*(math.log(each.p90 / each.p50) for each in (first, second)))
    return Spread(median * math.exp(-below), median, median * math.exp(above))


def _training(request: EstimateRequest) -> TrainingWorkload:
    if not isinstance(request.workload, TrainingWorkload):
        raise UnsupportedError("It knows trainings by their operators, and this is a batch script")
    return request.workload


def _profile(request: EstimateRequest, workload: TrainingWorkload) -> StepProfile:
    if request.profile is not None and request.profile.batch == workload.options.batch:
        return request.profile
    return profile_step(workload, device="gpu" if request.target and request.target.share.gpus else "cpu")


def _steps(workload: TrainingWorkload) -> float:
    steps = workload.steps
    if steps is None or not 0 < steps < math.inf:
        raise UnsupportedError(
            "Nobody said how much is to be learned",
            expected="the number of samples and of epochs",
            remedy="Give both, for example --samples 20000 --epochs 50",
        )
    return steps
