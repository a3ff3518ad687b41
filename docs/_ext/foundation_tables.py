"""Tables about the model's forecasts, made from the cells that `benchmarks/foundation.py` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "foundation"
GROUPS = {
    "Main sites, each held out alone (the recipe was chosen with these held out together)": (
        "KTH", "Curie", "BLUE", "HPC2N", "RICC",
    ),
    "Fresh sites, held out together; no choice was made by them": (
        "CTC", "SDSC-SP2", "Intrepid", "COARE", "Ross",
    ),
    "The others, held out together": ("CM5", "LPC", "MetaCentrum", "OSC", "SDSC-Par"),
}  # fmt: skip
ALONE = GROUPS[next(iter(GROUPS))]
KNOWN_JOBS = (0, 10, 100, 1_000, 10_000)
NONE = "No measurement is stored here yet. `make prove` makes one."


def fold_of(site: str) -> str:
    """Return the fold in which a site is held out."""
    if site in ALONE:
        return site
    return "fresh" if site in list(GROUPS.values())[1] else "rest"


def cell(name: str) -> dict[str, Any]:
    """Return one cell; empty if it was not made."""
    path = CELLS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def seeds(site: str, task: str, *keys: str) -> list[float]:
    """Return one figure of the model for every seed that was run."""
    found = []
    for path in sorted(CELLS.glob(f"zero-shot/{fold_of(site)}/{task}-*.json")):
        value: Any = json.loads(path.read_text())["sites"][site]
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found.append(float(value))
    return found


def told(values: list[float], digits: int = 3) -> str:
    """Return a mean with its spread over seeds, if there are several."""
    if not values:
        return "–"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def one(value: float | None, digits: int = 3) -> str:
    """Return a single figure."""
    return "–" if value is None else f"{value:.{digits}f}"


def task_tables(task: str, rules: tuple[str, ...]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return title, head and rows of one table for each group of sites."""
    head = (
        "site", *rules, "boosting, zero-shot", "**model, zero-shot**", "boosting, in-site", "refitted",
        "model, fine-tuned", "80 % interval holds", "before recalibration", "seeds",
    )  # fmt: skip
    tables = []
    for title, sites in GROUPS.items():
        rows = [row for site in sites if (row := _row(site, task, rules))]
        if rows:
            tables.append((title, head, rows))
    return tables


def _row(site: str, task: str, rules: tuple[str, ...]) -> tuple[str, ...] | None:
    zero_shot = seeds(site, task, "recalibrated", "log_mae")
    if not zero_shot:
        return None
    own = cell(f"in-site/{site}/{task}")
    boosted = cell(f"boosting/{fold_of(site)}/{task}").get("sites", {}).get(site, {})
    return (
        site,
        *(one(own.get(rule, {}).get("log_mae")) for rule in rules),
        one(boosted.get("log_mae")),
        f"**{told(zero_shot)}**",
        one(own.get("boosting", {}).get("log_mae")),
        one(own.get("boosting-refit", {}).get("log_mae")),
        told(seeds(site, task, "finetuned", "log_mae")),
        told(seeds(site, task, "recalibrated", "coverage_80")),
        told(seeds(site, task, "plain", "coverage_80")),
        str(len(zero_shot)),
    )


def failure_rows() -> list[tuple[str, ...]]:
    """Return how well failures are foretold, for sites that have any."""
    rows = []
    for sites in GROUPS.values():
        for site in sites:
            roc, precision = (seeds(site, "run", name) for name in ("failure_auroc", "failure_auprc"))
            own = cell(f"in-site/{site}/run")
            boosted = cell(f"boosting/{fold_of(site)}/run").get("sites", {}).get(site, {})
            others = (own.get("user-ema", {}), boosted, own.get("boosting", {}))
            if roc:
                rows.append(
                    (
                        site, told(roc), *(one(each.get("failure_auroc")) for each in others),
                        told(precision), *(one(each.get("failure_auprc")) for each in others),
                    )
                )  # fmt: skip
    return rows


def sureness_rows() -> list[tuple[str, ...]]:
    """Return by how much failures are ranked better than by boosting from other sites, and how sure that is."""
    rows = []
    for sites in GROUPS.values():
        for site in sites:
            found = cell(f"failures/{fold_of(site)}/run").get("sites", {}).get(site)
            if found:
                figures = (found[name] for name in ("auroc", "auprc"))
                told_by = (f"{each['higher_by']:+.3f} {_interval(each['ci95'])}" for each in figures)
                rows.append((site, f"{found['jobs']:,}", f"{found['failures']:,}", *told_by))
    return rows


def _interval(ends: list[float | None]) -> str:
    low, high = ends
    return "" if low is None or high is None else f"[{low:+.3f}, {high:+.3f}]"


def losses() -> list[tuple[str, ...]]:
    """Return every site and task on which some other forecaster has the smaller error."""
    rows = []
    for task in ("wait", "run"):
        for sites in GROUPS.values():
            for site in sites:
                ours = seeds(site, task, "recalibrated", "log_mae")
                for name, error in _rivals(site, task):
                    if ours and error is not None and error < mean(ours):
                        rows.append((site, task, name, one(error), told(ours)))
    return rows


def _rivals(site: str, task: str) -> list[tuple[str, float | None]]:
    boosted = cell(f"boosting/{fold_of(site)}/{task}").get("sites", {}).get(site, {})
    own = cell(f"in-site/{site}/{task}")
    names = ("state-knn", "similar", "last-two", "boosting", "boosting-refit")
    found = [(f"{name} (in-site)", own.get(name, {}).get("log_mae")) for name in names]
    return [("boosting, zero-shot", boosted.get("log_mae")), *found]


def seconds_rows(task: str) -> list[tuple[str, ...]]:
    """Return mean absolute errors in hours, of the model and of boosting."""
    rows = []
    for sites in GROUPS.values():
        for site in sites:
            ours = seeds(site, task, "recalibrated", "mae_s")
            boosted = cell(f"boosting/{fold_of(site)}/{task}").get("sites", {}).get(site, {})
            own = cell(f"in-site/{site}/{task}")
            others = (boosted, own.get("boosting", {}), own.get("boosting-refit", {}))
            tuned = seeds(site, task, "finetuned", "mae_s")
            if ours:
                rows.append(
                    (
                        site,
                        _hours(ours),
                        *(_hours([each["mae_s"]] if each else []) for each in others),
                        _hours(tuned),
                    )
                )
    return rows


def _hours(seconds: list[float]) -> str:
    return told([each / 3600 for each in seconds], 2)


def context_rows(task: str) -> list[tuple[str, ...]]:
    """Return how the error falls as more finished jobs of a new cluster are known."""
    rows = []
    for path in sorted(CELLS.glob(f"context/*/{task}.json")):
        for kind, points in json.loads(path.read_text())["rows"].items():
            by_known = {point["known"]: point["log_mae"] for point in points}
            rows.append((path.parent.name, kind, *(one(by_known.get(known)) for known in KNOWN_JOBS)))
    return rows


def elsewhere_rows(task: str) -> list[tuple[str, ...]]:
    """Return the errors on logs of other kinds than any that the network was trained on."""
    rows = []
    for path in sorted(CELLS.glob(f"elsewhere/*/{task}.json")):
        found = json.loads(path.read_text())
        names = ("last-two", "similar", "state-knn", "boosting", "zero-shot")
        figures = (one(found.get(name, {}).get("log_mae")) for name in names)
        rows.append((path.parent.name, *figures, one(found["zero-shot"]["coverage_80"])))
    return rows


def scheduler_rows() -> list[tuple[str, ...]]:
    """Return the errors under Slurm of networks that have seen no log of it, and of some that have."""
    rows = []
    for path in sorted(CELLS.glob("zero-shot/slurm/*.json")):
        task = path.stem.split("-")[0]
        for site, found in json.loads(path.read_text())["sites"].items():
            other = seeds(site, task, "recalibrated", "log_mae")
            rows.append((site, task, one(found["recalibrated"]["log_mae"]), told(other)))
    return rows


def names_rows() -> list[tuple[str, ...]]:
    """Return the errors of run times with the names of jobs and without them."""
    rows = []
    for path in sorted(CELLS.glob("names/*/run.json")):
        found = json.loads(path.read_text())
        for kind in ("zero-shot", "fine-tuned"):
            errors = (one(found[which][kind]["log_mae"]) for which in ("with names", "without"))
            rows.append((path.parent.name, str(found["without"]["jobs"]), kind, *errors))
    return rows


def simulated_rows() -> list[tuple[str, ...]]:
    """Return the errors of waits by simulating the queue forwards, and of both forecasts together."""
    rows = []
    for path in sorted(CELLS.glob("simulated/*/wait.json")):
        found = json.loads(path.read_text())
        errors = (one(found[name]) for name in ("simulation", "model", "both"))
        rows.append((path.parent.name, str(found["jobs"]), *errors, f"{found['share']:.0%}"))
    return rows


def memorised_rows() -> list[tuple[str, ...]]:
    """Return the errors of the shipped model on logs it was trained on, and of networks that never saw them."""
    rows = []
    for path in sorted(CELLS.glob("memorised/*/*.json")):
        found = json.loads(path.read_text())
        errors = (one(found[name]["log_mae"]) for name in ("shipped", "never seen"))
        rows.append((path.parent.name, path.stem, *errors))
    return rows


def what_if_rows() -> list[tuple[str, ...]]:
    """Return what the model said of jobs that ask for less, and what the simulator made of them."""
    path = CELLS.parent / "foundation_whatif.json"
    if not path.is_file():
        return []
    return [
        (
            name, f"{row['median_told_s'] / 3600:.1f}", f"{row['median_true_s'] / 3600:.1f}", one(row["log_mae"]),
            str(row["changed"]), "–" if row["direction_right"] is None else f"{row['direction_right']:.0%}",
        )
        for name, row in json.loads(path.read_text())["changes"].items()
    ]  # fmt: skip


def speed_rows() -> list[tuple[str, ...]]:
    """Return latencies of forecasts on one core, without torch."""
    path = CELLS.parent / "foundation_speed.json"
    if not path.is_file():
        return []
    found = json.loads(path.read_text())
    small, large = found["replay"], found["large"]
    return [
        (
            f"{small['log']}, {small['jobs']:,} jobs",
            *(one(small["forecast_ms"][key], 2) for key in ("p50", "p99")),
            one(small["update_ms"]["p50"]), f"{small['jobs_per_s']:.0f}",
        ),
        (
            f"{large['nodes']:,} nodes, {large['running']:,} running, {large['waiting']:,} waiting",
            *(one(large["forecast_ms"][key], 2) for key in ("p50", "p99")), "–", "–",
        ),
    ]  # fmt: skip
