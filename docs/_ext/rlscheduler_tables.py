"""Tables about RLScheduler's published results, made from what `benchmarks/rlscheduler.py` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

KEPT = Path(__file__).resolve().parents[1] / "results" / "data" / "rlscheduler.json"
BACKFILLINGS = {"none": "without", "easy": "with"}
RULES = {
    "fcfs": "FCFS", "wfp3-unscheduled": "WFP3, its wait", "unicep-unscheduled": "UNICEP, its wait", "sjf": "SJF",
    "f1": "F1", "wfp3": "WFP3, true wait", "unicep": "UNICEP, true wait", "saf": "SAF", "sqf": "SQF", "f2": "F2",
}  # fmt: skip
PROTOCOLS = {"apart": "apart", "theirs": "as RLScheduler", "untrained": "not at all"}
NONE = "No measurement is stored here yet. `make prove` makes one."

Rows = list[tuple[str, ...]]


def kept() -> dict[str, Any]:
    """Return what was measured; empty if nothing was."""
    return json.loads(KEPT.read_text()) if KEPT.is_file() else {}


def rule_rows() -> Rows:
    """Return every rule's slowdown beside the published one."""
    found = kept()["rules"]
    rows = []
    for backfilling, told in BACKFILLINGS.items():
        for log in dict.fromkeys(row["log"] for row in found):
            cells = {row["rule"]: row for row in found if (row["log"], row["backfilling"]) == (log, backfilling)}
            rows.append((log, told, *(_beside(cells[rule]) for rule in RULES)))
    return rows


def _beside(row: dict[str, Any]) -> str:
    ours = f"{row['slowdown']:.2f}"
    return ours if row["published"] is None else f"{ours} ({row['published']:.2f})"


def learned_rows() -> Rows:
    """Return the learned policies by cell and protocol: every seed, their mean, and whether all beat RL."""
    found = kept()["learned"]
    rows = []
    for protocol, words in PROTOCOLS.items():
        for backfilling, told in BACKFILLINGS.items():
            for log in dict.fromkeys(row["log"] for row in found):
                key = (log, backfilling, protocol)
                seeds = [row for row in found if (row["log"], row["backfilling"], row["protocol"]) == key]
                if seeds:
                    rows.append((words, log, told, *_against(seeds)))
    return rows


def _against(seeds: list[dict[str, Any]]) -> tuple[str, ...]:
    ours = [row["slowdown"] for row in seeds]
    published = seeds[0]["rl"]
    better = sum(each < published for each in ours)
    return (
        f"{published:.2f}",
        _bold_below(published, ours),
        f"{mean(ours) / published:.2f}",
        ", ".join(f"{each:.2f}" for each in ours),
        f"{better} of {len(ours)}",
        f"{mean(row['by_requests_alone'] for row in seeds):.2f}",
        *_rehearsed(seeds),
    )


def _bold_below(published: float, ours: list[float]) -> str:
    average = f"{mean(ours):.2f}"
    return f"**{average}**" if mean(ours) < published else average


def _rehearsed(seeds: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the mean with rehearsals, and every seed's; with backfilling there are none."""
    ours = [row["rehearsed"] for row in seeds if row["rehearsed"] is not None]
    if not ours:
        return "-", "-"
    return _bold_below(seeds[0]["rl"], ours), ", ".join(f"{each:.2f}" for each in ours)


def sequence_rows() -> Rows:
    """Return the slowdown of every sequence by SAF and by what was learned apart (means over seeds)."""
    found = kept()
    rows = []
    for backfilling, told in BACKFILLINGS.items():
        for log in dict.fromkeys(row["log"] for row in found["learned"]):
            rule = next(
                row for row in found["rules"]
                if (row["log"], row["backfilling"], row["rule"]) == (log, backfilling, "saf")
            )  # fmt: skip
            rows.append((log, told, "SAF", *(f"{each:.0f}" for each in rule["sequences"])))
            apart = [
                row for row in found["learned"]
                if (row["log"], row["backfilling"], row["protocol"]) == (log, backfilling, "apart")
            ]  # fmt: skip
            for words, field in (("learned", "sequences"), ("rehearsed", "rehearsed_sequences")):
                seeds = [row[field] for row in apart if row[field] is not None]
                if seeds:
                    rows.append((log, told, words, *(f"{mean(each):.0f}" for each in zip(*seeds, strict=True))))
    return rows


def begins() -> list[int]:
    """Return where the test sequences begin."""
    return list(kept().get("begins", []))
