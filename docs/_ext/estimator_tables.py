"""Tables about estimates, made from the cells that `benchmarks/estimators.py` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "estimators"
NONE = "No measurement is stored here yet. `python benchmarks/estimators.py` makes one."
WAYS = {
    ("baselines", "raw_roofline"): "roofline, makers' figures",
    ("baselines", "flops_fitted"): "FLOPs × one fitted factor",
    ("baselines", "roofline_fitted"): "roofline × one fitted factor",
    ("without_profiling", "kind_left_out"): "**operators, network left out with all its sizes**",
    ("without_profiling", "family_left_out"): "operators, whole family left out",
    ("with_profiling", "next_process"): "**five profiled steps, the next process**",
    ("with_profiling", "next_round"): "five profiled steps, a process many minutes later",
}

Rows = list[tuple[str, ...]]
HEADS: dict[str, tuple[str, ...]] = {
    "walltime": ("time of a step from", "median error", "mean", "90 % below", "largest", "80 % interval covers"),
    "networks": (
        "network", "CPU s per step", "foretold, network left out", "from five steps, by round",
        "peak MiB", "foretold peak",
    ),
    "memory": ("networks", "median error", "mean", "largest"),
    "latency": ("network", "first in a new process, CPU s", "in a warm process, CPU s", "out of the cache, CPU s"),
}  # fmt: skip


def rows_of(part: str) -> Rows:
    """Return the rows of one of `HEADS`; none where nothing was measured."""
    return {"walltime": _walltime, "networks": _networks, "memory": _memory, "latency": _latency}[part]()


def _walltime() -> Rows:
    found = _read("walltime")
    if not found:
        return []
    repeated = f"± {found['between_runs']:.1%}"
    rows: Rows = [
        ("the same network, run again: standard deviation, median of networks", repeated, "", "", "", "")
    ]
    for path, title in WAYS.items():
        cell = found
        for key in path:
            cell = cell.get(key, {})
        if not cell:
            continue
        covered = f"{cell['coverage_80']:.0%}" if "coverage_80" in cell else ""
        rows.append(
            (title, *(f"{cell[key]:.1%}" for key in ("median_error", "mean_error", "p90_error", "most")), covered)
        )
    return rows


def _networks() -> Rows:
    times, memory = _read("walltime"), _read("memory").get("networks", {})
    if not times:
        return []
    left_out = times["without_profiling"]["kind_left_out"]["errors"]
    profiled = times["with_profiling"]["next_process"]["errors"]
    rows = []
    for name, seconds in times["seconds"].items():
        own = ", ".join(f"{error:+.0%}" for key, error in profiled.items() if key.rpartition(" ")[0] == name)
        peak = memory.get(name)
        rows.append((
            name, f"{seconds:.3f}", f"{left_out[name]:+.0%}", own,
            f"{peak['real_bytes'] / 2**20:.1f}" if peak else "", f"{peak['error']:+.2%}" if peak else "",
        ))  # fmt: skip
    return rows


def _memory() -> Rows:
    errors = [abs(each["error"]) for each in _read("memory").get("networks", {}).values()]
    if not errors:
        return []
    return [(str(len(errors)), f"{median(errors):.2%}", f"{mean(errors):.2%}", f"{max(errors):.2%}")]


def _latency() -> Rows:
    found = _read("latency").get("networks", {})
    if not found:
        return []
    keys = ("cold_cpu_s", "warm_cpu_s", "cached_cpu_s")
    rows = [(name, *(f"{each[key]:.3f}" for key in keys)) for name, each in found.items() if "cold_cpu_s" in each]
    for title, chosen in (("median", median), ("most", max)):
        some = {key: [each[key] for each in found.values() if key in each] for key in keys}
        counts = "/".join(str(count) for count in sorted({len(values) for values in some.values()}))
        rows.append((f"{title} of {counts}", *(f"{chosen(values):.3f}" for values in some.values())))
    return rows


def _read(cell: str) -> dict[str, Any]:
    path = CELLS / f"{cell}.json"
    return json.loads(path.read_text()) if path.is_file() else {}
