"""Tables about policies learned on synthetic jobs, from the cells of `benchmarks/train_on_synthetic.py`."""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "train-on-synthetic"
LOGS = ("SDSC-BLUE", "HPC2N", "CTC-SP2", "KTH-SP2")
LEARNED = {
    "real": "real",
    "synthetic": "synthetic",
    "few-real": "1,000 real",
    "few-synthetic": "synthetic, of 1,000",
    "few-both": "1,000 real + synthetic",
}
RULES = {"index": "fixed index, not trained", "sjf": "SJF + EASY", "saf": "SAF + EASY", "fcfs": "FCFS + EASY"}
BASES = {
    "real": ("synthetic", "few-real", "few-synthetic", "few-both", *RULES),
    "few-real": ("few-both", "few-synthetic", "index"),
}
"""What the ratios of a table are to, and its rows."""
_INTERVALS = {"ratio": "ci95", "of_means": "of_means_ci95"}
NONE = "No measurement is stored here yet. `make prove` makes one."

Rows = list[tuple[str, ...]]


def there() -> dict[str, dict[str, Any]]:
    """Return what was compared on each log that is done."""
    return {name: found for name in LOGS if (found := _read(f"{name}/compared"))}


def head(part: str) -> tuple[str, ...]:
    """Return the first line of a table."""
    if part == "logs":
        return ("log", "jobs to learn from", "later jobs", "windows tested", "seeds")
    if part == "models":
        return ("log", "learned from", "CPU s", "rounds", "index on real", "on synthetic", "20,000 jobs, CPU s")
    if part == "weights":
        return ("log", "learned on", *(name.replace("_", " ") for name in _weights(next(iter(there())), "real")))
    return ("learned on", *there(), *(() if part in ("slowdowns", "seeds") else ("geo mean",)))


def log_rows() -> Rows:
    """Return how many jobs each log has, and how many seeds are done."""
    return [
        (name, *(f"{found[key]:,}" for key in ("jobs", "later", "windows")), str(len(found["seeds"])))
        for name, found in there().items()
    ]


def slowdown_rows() -> Rows:
    """Return the mean bounded slowdown of later jobs: of all seeds, and of each."""
    return [
        (title, *(_of_seeds(found["rows"].get(name)) for found in there().values()))
        for name, title in {**LEARNED, **RULES}.items()
    ]


def seed_rows() -> Rows:
    """Return each seed's ratio, window by window, to the mean of all seeds on real jobs."""
    rows = []
    for name, title in LEARNED.items():
        found = [each["rows"].get(name, {}).get("ratio_by_seed", []) for each in there().values()]
        rows.append((title, *(", ".join(f"{each:.3f}" for each in seeds) or "–" for seeds in found)))
    return rows


def ratio_rows(base: str, kind: str = "ratio") -> Rows:
    """Return ratios to what was learned on `base`, window by window (`ratio`) or of means (`of_means`)."""
    rows = []
    for name in BASES[base]:
        found = [each["rows"].get(name, {}).get(f"to_{base}") for each in there().values()]
        told = [_interval(each[kind], each[_INTERVALS[kind]]) if each else "–" for each in found]
        overall = f"{exp(mean(log(each[kind]) for each in found)):.3f}" if all(found) else "–"
        rows.append(({**LEARNED, **RULES}[name], *told, overall))
    return rows


def model_rows() -> Rows:
    """Return how synthesizers were trained, and how the index does on windows that policies are learned on."""
    rows = []
    for name in there():
        for few in ("", "few-"):
            found = _read(f"{name}/{few}synthetic/model")
            real, synthetic = (_cells(name, f"{few}{kind}") for kind in ("real", "synthetic"))
            if not synthetic:
                continue
            index = (mean(each["index_while_learning"] for each in cells) for cells in (real, synthetic))
            drawn_s = mean(each["drawn_cpu_s"] for each in synthetic)
            made = (f"{found['jobs']:,}", f"{found['cpu_s']:.0f}", str(found.get("epochs", "–")))
            rows.append((name, *made, *(f"{each:.1f}" for each in index), f"{drawn_s:.0f}"))
    return rows


def weight_rows() -> Rows:
    """Return the weights that were found, means over seeds."""
    return [
        (name, title, *(f"{value:.2f}" for value in _weights(name, training).values()))
        for name in there()
        for training, title in LEARNED.items()
        if _cells(name, training)
    ]


def _weights(name: str, training: str) -> dict[str, float]:
    found = [cell["weights"] for cell in _cells(name, training)]
    return {key: mean(each[key] for each in found) for key in found[0]} if found else {}


def _of_seeds(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    seeds = ", ".join(f"{each:.2f}" for each in row["by_seed"])
    return f"{row['bounded_slowdown']:.2f}" + (f" ({seeds})" if len(row["by_seed"]) > 1 else "")


def _interval(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _cells(name: str, training: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((CELLS / name / training).glob("[0-9].json"))]


def _read(name: str) -> dict[str, Any]:
    path = CELLS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else {}
