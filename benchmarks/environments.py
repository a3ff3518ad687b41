"""How many choices a second the environments take, on one core, with observations and masks.

Prints one JSON object: for each environment choices per second of many machines in one call, and of a single one
through Gymnasium. What is chosen is always the first that may be; seconds are those that the process had a core.
The number is the middle of several rounds, which go through all environments in turn.

    python benchmarks/environments.py [--machines 64] [--seconds 2] [--rounds 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gymnasium

import presage
from presage.environments import NodeWindows, Windows

WARM_UP = 100
POOLED = ("BatchOrder", "Backfill", "SubmitTime")
ON_NODES = ("Placement", "KubeCluster")


def many(environment: Any, seconds: float) -> float:
    """Return choices per second of many machines."""
    _, infos = environment.reset(seed=0)
    for _ in range(WARM_UP):
        *_, infos = environment.step(infos["action_mask"].argmax(1))
    steps, begin = 0, time.process_time()
    while time.process_time() - begin < seconds:
        *_, infos = environment.step(infos["action_mask"].argmax(1))
        steps += 1
    return environment.num_envs * steps / (time.process_time() - begin)


def single(environment: Any, seconds: float) -> float:
    """Return choices per second of one machine."""
    _, info = environment.reset(seed=0)
    steps, begin = 0, time.process_time()
    while time.process_time() - begin < seconds:
        *_, done, _, info = environment.step(int(info["action_mask"].argmax()))
        steps += 1
        if done:
            _, info = environment.reset()
    return steps / (time.process_time() - begin)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    workloads: dict[str, Any] = dict.fromkeys(POOLED, Windows.generated())
    workloads |= dict.fromkeys(ON_NODES, NodeWindows.generated())
    runs: dict[str, dict[str, list[int]]] = {name: {"many": [], "single": []} for name in workloads}
    for _ in range(arguments.rounds):
        for name, workload in workloads.items():
            vector = gymnasium.make_vec(
                f"presage/{name}-v1", arguments.machines, "vector_entry_point", workload=workload
            )
            runs[name]["many"].append(round(many(vector, arguments.seconds)))
            alone = gymnasium.make(f"presage/{name}-v1", workload=workload)
            runs[name]["single"].append(round(single(alone, arguments.seconds)))
    found: dict[str, Any] = {
        "benchmark": "environments",
        "presage": presage.__version__,
        "python": platform.python_version(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load_average": round(os.getloadavg()[1], 1),
        "machines": arguments.machines,
        "environments": {
            name: {
                "choices_per_s": statistics.median_low(rounds["many"]),
                "choices_per_s_single": statistics.median_low(rounds["single"]),
                "runs": rounds,
            }
            for name, rounds in runs.items()
        },
    }
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
