"""Measuring this machine: steps of small networks of every kind, and the device that fits them."""

from __future__ import annotations

import platform
from statistics import median
from typing import TYPE_CHECKING

from presage.errors import UnknownNameError
from presage.estimators.training.cache import profile_step
from presage.estimators.training.devices import DeviceModel, Sample, fit_device, keep_device
from presage.estimators.training.measuring.steps import measure_each
from presage.estimators.training.networks import NETWORKS, Network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from presage.estimators.training.profile import StepProfile

ROUNDS = 2
STEPS = 3


def calibrate_device(
    progress: Callable[[int, int], None] | None = None,
    *,
    networks: Iterable[str] = (),
    rounds: int = ROUNDS,
    folder: Path | None = None,
) -> DeviceModel:
    """Measure one core of this machine, keep it for the estimates to come, and return it.

    Takes some minutes: every network is traced once, then all of them take steps in several rounds, every second
    one backwards, so that other work on the machine does not fall on the same network each time. `progress` is
    told how many parts are done of how many. `networks` are names of those to take, all if empty. Raises
    InputError if there are fewer than 8 kinds of them or a step cannot be taken, MissingDependencyError without
    torch.
    """
    chosen = _chosen(networks)
    total = len(chosen) * (rounds + 1)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, total)

    profiles: dict[str, StepProfile] = {}
    for network in chosen:
        tell(len(profiles))
        profiles[network.name] = profile_step(network.workload)
    seconds: dict[str, list[float]] = {network.name: [] for network in chosen}
    for number in range(rounds):
        order = chosen[:: -1 if number % 2 else 1]
        measured = measure_each([network.workload for network in order], steps=STEPS)
        for place, (network, times) in enumerate(zip(order, measured, strict=True)):
            tell(len(chosen) * (number + 1) + place)
            seconds[network.name].append(median(times.cpu_s))
    tell(total)
    samples = [Sample(profiles[each.name], median(seconds[each.name]), each.kind) for each in chosen]
    device = fit_device(f"one core of {platform.node() or 'this machine'}", samples)
    keep_device(device, folder)
    return device


def _chosen(names: Iterable[str]) -> list[Network]:
    known = {network.name: network for network in NETWORKS}
    wanted = list(dict.fromkeys(names)) or list(known)
    for name in wanted:
        if name not in known:
            raise UnknownNameError("network", name, known)
    return [known[name] for name in wanted]
