"""How far off estimates of memory and time are, and how long they take.

Prints one JSON object. What is measured is kept raw in cells, so that fits can be done again without measuring:

- `profiles`: what a step of every network takes, as traced.
- `steps/N`: eight real steps of every network in two processes, one after the other, on one thread, in CPU time,
  because other work on the machine counts in the clock's. Two more steps to warm up are dropped. Every second
  round goes through the networks backwards.
- `memory`: traced peaks against those of real steps, by torch's profiler.
- `latency`: CPU time of a trace in a new process (of some networks), in one that has traced before, and out of the
  cache.
- `walltime`: errors of foretold steps. Without profiling, every network is left out of the calibration with all of
  its sizes, and once more with all of its family; how strongly costs are held near the roofline is chosen without
  it, too. With profiling, the first five steps of one process foretell the mean step of the next process, and once
  more that of the last process in the next round, many minutes later.

    python benchmarks/estimators.py [--only steps] [--quick] [--out FILE]
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cells import read_cell, run_cells, say
from presage.estimators import TrainingOptions, TrainingWorkload
from presage.estimators.training.cache import ProfileCache, profile_step
from presage.estimators.training.devices.fitting import Sample, features, fit_costs, fit_device
from presage.estimators.training.isolation import Tracer
from presage.estimators.training.measuring import StepTimes, measure_each
from presage.estimators.training.measuring.memory import measure_peak
from presage.estimators.training.networks import NETWORKS, Network, find_network
from presage.estimators.training.profile import StepProfile, parse_profile
from presage.estimators.training.walltime import measured_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results" / "data" / "estimators"
ROUNDS = 3
STEPS = 8
PROFILED = 5
PEAK_FLOPS_S = 179e9
"""Of one core at 2.8 GHz: two units for 16 products and sums each."""
BANDWIDTH_BYTES_S = 12e9
COLD = ("resnet50-96", "efficientnet-96", "vit-64", "gpt-96", "lstm-64", "mlp-2048")
QUICK = ("resnet18-64", "vgg-32", "mobilenet-64", "unet-64", "vit-64", "bert-64", "lstm-64", "tcn-512", "mlp-2048",
         "dlrm-16", "graph-256")  # fmt: skip


class Bench:
    """The cells of one run over some networks."""

    def __init__(self, networks: tuple[Network, ...], folder: Path, rounds: int) -> None:
        self.networks = networks
        self.folder = folder
        self.rounds = rounds

    def cells(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """Return all cells, in the order in which they need each other."""
        return {
            "profiles": self.profiles,
            "memory": self.memory,
            "latency": self.latency,
            **{f"steps/{number}": lambda number=number: self.steps(number) for number in range(self.rounds)},
            "walltime": self.walltime,
        }

    def profiles(self) -> dict[str, Any]:
        """Trace a step of every network."""
        with Tracer() as tracer:
            return {"networks": {each.name: tracer.profile(each.workload).as_dict() for each in self.networks}}

    def memory(self) -> dict[str, Any]:
        """Compare traced peaks with those of real steps, each in a process of its own."""
        profiles = read_cell(self.folder, "profiles")["networks"]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["presage.estimators.training.measuring.memory"])
        found = {}
        for network in self.networks:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                real = pool.submit(_real_peak, network.name).result()
            traced = profiles[network.name]["peak_bytes"]
            found[network.name] = {
                "real_bytes": real,
                "traced_bytes": traced,
                "error": round(traced / real - 1, 6),
            }
            say(f"memory: {network.name} {traced / real - 1:+.2%}")
        return {"networks": found}

    def latency(self) -> dict[str, Any]:
        """Time traces of a user's file: new process, warm process, cache."""
        found: dict[str, dict[str, float]] = {network.name: {} for network in self.networks}
        with Tracer() as tracer, tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "train.py"
            file.write_text("from presage.estimators.training.networks import build_network\n")
            workloads = {
                each.name: replace(each.workload, model=f"{file}:build_network?name={each.name}")
                for each in self.networks
            }
            tracer.profile(self.networks[0].workload)
            cache = ProfileCache(Path(folder) / "cache")
            for name, workload in workloads.items():
                before = _cpu_s(tracer)
                profile_step(workload, tracer=tracer, cache=cache)
                found[name]["warm_cpu_s"] = round(_cpu_s(tracer) - before, 3)
                before = time.process_time()
                profile_step(workload, tracer=tracer, cache=cache)
                found[name]["cached_cpu_s"] = round(time.process_time() - before, 4)
            for name in COLD:
                if name in workloads:
                    found[name]["cold_cpu_s"] = round(_cold_s(workloads[name]), 3)
        return {"networks": found}

    def steps(self, number: int) -> dict[str, Any]:
        """Take real steps of every network."""
        order = self.networks[:: -1 if number % 2 else 1]
        twice = [network for network in order for _ in range(2)]
        found: dict[str, list[dict[str, list[float]]]] = {network.name: [] for network in self.networks}
        for network, times in zip(
            twice, measure_each([each.workload for each in twice], steps=STEPS), strict=True
        ):
            found[network.name].append({"cpu_s": _rounded(times.cpu_s), "wall_s": _rounded(times.wall_s)})
            say(f"round {number}: {network.name} {median(times.cpu_s):.3f} s")
        return {"networks": found}

    def walltime(self) -> dict[str, Any]:
        """Fit, leave out, compare."""
        profiles = read_cell(self.folder, "profiles")["networks"]
        rounds = [read_cell(self.folder, f"steps/{number}")["networks"] for number in range(self.rounds)]
        measured = {
            network.name: median(median(run["cpu_s"]) for run in _runs(rounds, network.name))
            for network in self.networks
        }
        known = {network.name: parse_profile(profiles[network.name]) for network in self.networks}
        of_kind = _samples(self.networks, known, measured, lambda network: network.kind)
        of_family = _samples(self.networks, known, measured, lambda network: network.family)
        return {
            "networks": len(self.networks),
            "kinds": len({network.kind for network in self.networks}),
            "seconds": {name: round(seconds, 5) for name, seconds in measured.items()},
            "between_runs": round(median(_variation(rounds, network.name) for network in self.networks), 4),
            "without_profiling": {
                "kind_left_out": left_out(of_kind),
                "family_left_out": left_out(of_family),
            },
            "baselines": baselines(of_kind),
            "device": fit_device("one core of an x86 server", list(of_kind.values()), core_gflops=179.0).as_dict(),
            "with_profiling": {
                "next_process": with_profiling(_pairs(rounds, measured, later=False)),
                "next_round": with_profiling(_pairs(rounds, measured, later=True)),
            },
        }


def _real_peak(name: str) -> int:
    torch.set_num_threads(1)
    network = find_network(name)
    return measure_peak(network.build, network.inputs, TrainingOptions(batch=network.batch))


def _cold_s(workload: TrainingWorkload) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Tracer() as tracer:
        tracer.profile(workload)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cpu_s(tracer: Tracer) -> float:
    """Return the CPU time of the tracing process so far."""
    assert tracer._process is not None
    fields = Path(f"/proc/{tracer._process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def left_out(samples: dict[str, Sample]) -> dict[str, Any]:
    """Foretell every network from those of other kinds; the interval, too, comes from the others alone."""
    told: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(sample.kind for sample in samples.values()):
        fit = fit_costs([sample for sample in samples.values() if sample.kind != kind])
        for name, sample in samples.items():
            if sample.kind == kind:
                told[name] = {"step_s": float(features(sample.profile) @ fit.costs), "factor": fit.factor}
    errors = {name: told[name]["step_s"] / sample.seconds - 1 for name, sample in samples.items()}
    covered = [
        1 / told[name]["factor"] <= sample.seconds / told[name]["step_s"] <= told[name]["factor"]
        for name, sample in samples.items()
    ]
    return {**summary(errors), "coverage_80": round(mean(covered), 4),
            "factor": round(median(each["factor"] for each in told.values()), 4)}  # fmt: skip


def baselines(samples: dict[str, Sample]) -> dict[str, Any]:
    """Return the errors of simpler ways; those that are fitted leave the kind out as well."""
    nominal = {name: _roofline_s(sample.profile) for name, sample in samples.items()}
    flops = {name: sample.profile.flops for name, sample in samples.items()}
    return {
        "raw_roofline": summary({name: nominal[name] / sample.seconds - 1 for name, sample in samples.items()}),
        "flops_fitted": summary(_scaled(samples, flops)),
        "roofline_fitted": summary(_scaled(samples, nominal)),
    }


def with_profiling(pairs: dict[str, tuple[list[float], list[float]]]) -> dict[str, Any]:
    """Foretell the mean step of a run from the first steps of an earlier one."""
    errors, covered = {}, []
    if not pairs:
        return {}
    for name, (earlier, later) in pairs.items():
        seen = tuple(earlier[:PROFILED])
        spread = measured_step(StepTimes(seen, seen, 0.0))
        errors[name] = spread.p50 / mean(later) - 1
        covered.append(spread.p10 <= mean(later) <= spread.p90)
    return {**summary(errors), "coverage_80": round(mean(covered), 4)}


def summary(errors: dict[str, float]) -> dict[str, Any]:
    """Return median, mean and the largest of relative errors, and all of them."""
    sizes = [abs(error) for error in errors.values()]
    return {
        "median_error": round(median(sizes), 4), "mean_error": round(mean(sizes), 4),
        "p90_error": round(float(np.quantile(sizes, 0.9)), 4), "most": round(max(sizes), 4),
        "errors": {name: round(error, 4) for name, error in errors.items()},
    }  # fmt: skip


def _samples(
    networks: Iterable[Network],
    profiles: dict[str, StepProfile],
    measured: dict[str, float],
    kind_of: Callable[[Network], str],
) -> dict[str, Sample]:
    return {
        network.name: Sample(profiles[network.name], measured[network.name], kind_of(network))
        for network in networks
    }


def _scaled(samples: dict[str, Sample], amounts: dict[str, float]) -> dict[str, float]:
    """Return errors of amount times the one factor that fits networks of other kinds best."""
    errors = {}
    for name, sample in samples.items():
        others = [each for each, other in samples.items() if other.kind != sample.kind]
        factor = np.exp(mean(np.log(samples[each].seconds / amounts[each]) for each in others))
        errors[name] = float(factor * amounts[name] / sample.seconds - 1)
    return errors


def _roofline_s(profile: StepProfile) -> float:
    return sum(max(each.flops / PEAK_FLOPS_S, each.bytes / BANDWIDTH_BYTES_S) for each in profile.classes.values())


def _runs(rounds: list[dict[str, Any]], name: str) -> list[dict[str, list[float]]]:
    return [run for each in rounds for run in each[name]]


def _pairs(
    rounds: list[dict[str, Any]], names: Iterable[str], *, later: bool
) -> dict[str, tuple[list[float], list[float]]]:
    """Return CPU times of earlier and later runs: both of a round, or of one and of the next."""
    found = {}
    for number in range(len(rounds) - int(later)):
        for name in names:
            second = rounds[number + int(later)][name][-1]
            found[f"{name} {number}"] = (rounds[number][name][0]["cpu_s"], second["cpu_s"])
    return found


def _variation(rounds: list[dict[str, Any]], name: str) -> float:
    medians = [median(run["cpu_s"]) for run in _runs(rounds, name)]
    return float(np.std(medians, ddof=1) / np.mean(medians)) if len(medians) > 1 else 0.0


def _rounded(seconds: Iterable[float]) -> list[float]:
    return [round(each, 6) for each in seconds]


def main() -> None:
    """Measure what is missing, and print the JSON."""
    quick = "--quick" in sys.argv
    if quick:
        sys.argv.remove("--quick")
    with tempfile.TemporaryDirectory() as scratch:
        networks = tuple(each for each in NETWORKS if not quick or each.name in QUICK)
        bench = Bench(networks, Path(scratch) if quick else FOLDER, 1 if quick else ROUNDS)
        run_cells("estimators", __doc__ or "", bench.folder, bench.cells(), {"quick": quick})


if __name__ == "__main__":
    main()
