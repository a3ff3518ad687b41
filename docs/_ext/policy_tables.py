"""Tables about learned policies, made from the cells that `benchmarks/policies.py` keeps."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "policies"
SITES = ("HPC2N", "KTH", "SDSC-SP2", "BLUE", "CTC", "Curie")
POLICIES = {
    "policy/index": "fixed index",
    "tuned/policy/index": "fixed index, forecasts fine-tuned",
    "policy/default": "`default`, searched on the train parts of all six",
    "tuned/policy/default": "`default`, forecasts fine-tuned",
    "policy/linear-others": "searched on the other five logs",
    "policy/linear-own": "searched on the log's own past",
    "policy/look-ahead": "look-ahead over rules",
}
"""Where the cells of a policy are → what it is called."""
PAIRED = {"paired": "forecasts", "tuned/paired": "forecasts, fine-tuned"}
MODES = {
    "native": "native load", "native watched": "native load, self-watch", "0.9": "load 0.9",
    "0.9 watched": "load 0.9, self-watch", "windows": "24 windows of 1024 jobs",
}  # fmt: skip
FIGURES = {
    "bounded_slowdown": "mean bounded slowdown", "p99_wait_s": "p99 wait", "max_wait_s": "longest wait",
    "response_s": "mean response",
}  # fmt: skip


def cell(name: str) -> dict[str, Any]:
    """Return one cell; empty if it was not made."""
    path = CELLS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def geo_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return exp(mean(log(value) for value in values))


def over_seeds(name: str, site: str, mode: str, *keys: str) -> list[Any]:
    """Return one figure for every seed that was run."""
    found = []
    for path in sorted(CELLS.glob(f"{name}/{site}-*.json")):
        value: Any = json.loads(path.read_text()).get(mode)
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found.append(value)
    return found


def told(values: list[float]) -> str:
    """Return a mean, and the range over seeds if there are several."""
    if not values:
        return "–"
    spread = f" ({min(values):.2f}–{max(values):.2f})" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


def paired_rows() -> list[tuple[str, ...]]:
    """Return what forecasts alone do, and the truth, by log; then how far forecasts go towards the truth."""
    rows = []
    for mode in ("native", "0.9"):
        truth = [over_seeds("paired", site, mode, "actual") for site in SITES]
        shares = []
        for name, says in PAIRED.items():
            values = [over_seeds(name, site, mode, "forecast") for site in SITES]
            if not all(values):
                continue
            rows.append((MODES[mode], says, *map(told, values), _geo_mean_of(values)))
            way = [
                (1 - mean(forecast)) / (1 - mean(actual)) for forecast, actual in zip(values, truth, strict=True)
            ]
            shares.append(
                (MODES[mode], f"share of the way, {says}", *(f"{one:.0%}" for one in way), f"{mean(way):.0%}")
            )
        if all(truth):
            rows.append((MODES[mode], "true run times (bound)", *map(told, truth), _geo_mean_of(truth)))
        rows += shares
    return rows


def _geo_mean_of(values: list[list[float]]) -> str:
    return f"**{geo_mean([mean(each) for each in values]):.2f}**"


def static_rows() -> list[tuple[str, ...]]:
    """Return the picked rules, what they do, and what hindsight would have picked."""
    cells = [cell(f"static/{site}") for site in SITES]
    if not all(cells):
        return []
    rows = [("picked on the train part", *(each["picked"] for each in cells))]
    for mode in ("native", "0.9"):
        rows.append((f"first come, first served, {MODES[mode]}", *(_two(each[mode]["fcfs"]) for each in cells)))
        picked = [each[mode]["rules"][each["picked"]]["bounded_slowdown"] for each in cells]
        rows.append((f"the picked rule, {MODES[mode]}", *(f"{value:.1f}" for value in picked)))
        rows.append((f"best safe rule in hindsight, {MODES[mode]}", *(_hindsight(each[mode]) for each in cells)))
    return rows


def _two(figures: dict[str, float]) -> str:
    return f"{figures['bounded_slowdown']:.1f}"


def _hindsight(part: dict[str, Any]) -> str:
    safe = {rule: each["bounded_slowdown"] for rule, each in part["rules"].items() if each["is_safe"]}
    best = min(safe, key=safe.__getitem__)
    return f"{safe[best]:.1f} ({best})"


def policy_rows(mode: str) -> list[tuple[str, ...]]:
    """Return the ratio of each policy to the picked rule, with the interval of the first seed."""
    rows = []
    for name, says in POLICIES.items():
        ratios = [over_seeds(name, site, mode, "ratio_to_static") for site in SITES]
        if not all(ratios):
            continue
        intervals = [over_seeds(name, site, mode, "ci95")[0] for site in SITES]
        cells = [
            f"{told(ratio)} [{low:.2f}, {high:.2f}]" for ratio, (low, high) in zip(ratios, intervals, strict=True)
        ]
        rows.append((says, *cells, _geo_mean_of(ratios)))
    return rows


def fcfs_rows(name: str) -> list[tuple[str, ...]]:
    """Return a policy's figures over those of first come, first served with EASY."""
    rows = []
    for mode in ("native", "native watched", "0.9 watched"):
        for key, says in FIGURES.items():
            ratios = [over_seeds(name, site, mode, "to_fcfs", key) for site in SITES]
            if not all(ratios):
                return rows
            middle = geo_mean([max(mean(ratio), 1e-9) for ratio in ratios])
            rows.append((MODES[mode], says, *map(told, ratios), f"{middle:.2f}"))
    return rows


def speed_rows() -> list[tuple[str, ...]]:
    """Return how long a decision about a live queue takes."""
    found = cell("speed")
    return [
        (waiting, f"{each['p50_ms']:.3f}", f"{each['p99_ms']:.3f}")
        for waiting, each in found.items()
        if isinstance(each, dict)
    ]


def online_rows() -> list[tuple[str, ...]]:
    """Return how a policy does with forecasts from the log's own history, and from that of its own schedule."""
    rows = []
    for path in sorted(CELLS.glob("online/*.json")):
        rounds = json.loads(path.read_text())["rounds"]
        rows.append(
            (
                path.stem,
                *(
                    f"{each['ratio_to_static']:.2f} [{each['ci95'][0]:.2f}, {each['ci95'][1]:.2f}]"
                    for each in rounds
                ),
            )
        )
    return rows
