"""Tables about how fast policies are learned, made from the cells that `benchmarks/learning_curves.py` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "learning-curves"
RULES = {"fcfs": "FCFS", "sjf": "SJF", "saf": "SAF", "index": "fixed index"}
LEARNERS = {
    "ppo": "PPO from the index",
    "ppo-longer": "PPO from the index, longer",
    "ppo-from-nothing": "PPO from nothing",
    "cma": "CMA-ES from the index",
}
STARTS = {
    "carried": "PPO carried over from Lublin",
    "from-index": "PPO from the index",
    "from-nothing": "PPO from nothing",
}
WORKLOADS = {
    "lublin/exact": "Lublin, exact requests",
    "KTH/requested": "KTH, by requests",
    "KTH/forecast": "KTH, by forecasts",
    "SDSC-SP2/forecast": "SDSC-SP2, by forecasts",
}
NONE = "No measurement is stored here yet. `make prove` makes one."

Rows = list[tuple[str, ...]]


def rule_rows() -> Rows:
    """Return the mean bounded slowdown of rules that nobody has to learn."""
    rows = []
    for name, title in WORKLOADS.items():
        if found := _read(CELLS / name / "rules.json"):
            rows.append((title, *(f"{found[rule]['bounded_slowdown']:.1f}" for rule in RULES)))
    return rows


def curve_rows(name: str) -> Rows:
    """Return every learner's curve on a workload, one row per length of training."""
    rows: Rows = []
    for learner, title in LEARNERS.items():
        rows += _rows_of(title, CELLS / name / learner)
    return rows


def adapting_rows() -> Rows:
    """Return the first decisions on a new log, by where the network comes from."""
    rows: Rows = []
    for kind, title in STARTS.items():
        rows += _rows_of(title, CELLS / "adapt" / kind)
    return rows


def _rows_of(title: str, folder: Path) -> Rows:
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    # Seeds differ a little in the decisions that a generation of a search makes.
    points = zip(*(each["curve"] for each in found), strict=True) if found else ()
    return [
        (
            title, f"{round(mean(line['decisions'] for line in point), -2):,.0f}",
            _told([line["bounded_slowdown"] for line in point], 1),
            _told([line["ratio_to_index"] for line in point], 2),
            ", ".join(f"{line['bounded_slowdown']:.1f}" for line in point),
        )
        for point in points
    ]  # fmt: skip


def _told(values: list[float], digits: int) -> str:
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}
