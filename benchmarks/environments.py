"""How many choices a second the environments take, on one core, with observations and masks.

Prints one JSON object: choices per second of many machines in one call, and of a single one through Gymnasium.

    python benchmarks/environments.py [--machines 64] [--seconds 5] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import presage
from presage.environments import BatchOrder, BatchOrderVector, Windows

WARM_UP = 100


def many(workload: Windows, machines: int, seconds: float) -> float:
    """Return choices per second of many machines, each choosing the first job that may be chosen."""
    environment = BatchOrderVector(workload, machines)
    _, infos = environment.reset(seed=0)
    for _ in range(WARM_UP):
        *_, infos = environment.step(infos["action_mask"].argmax(1))
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        *_, infos = environment.step(infos["action_mask"].argmax(1))
        steps += 1
    return machines * steps / (time.perf_counter() - begin)


def single(workload: Windows, seconds: float) -> float:
    """Return choices per second of one machine."""
    environment = BatchOrder(workload)
    _, info = environment.reset(seed=0)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        *_, done, _, info = environment.step(int(info["action_mask"].argmax()))
        steps += 1
        if done:
            _, info = environment.reset()
    return steps / (time.perf_counter() - begin)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    workload = Windows.generated()
    found: dict[str, Any] = {
        "benchmark": "environments",
        "presage": presage.__version__,
        "python": platform.python_version(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "slots": 128,
        "machines": arguments.machines,
        "choices_per_s": round(many(workload, arguments.machines, arguments.seconds)),
        "choices_per_s_single": round(single(workload, arguments.seconds)),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
