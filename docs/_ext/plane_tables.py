"""Tables about what the plane survives, made from the cells that `benchmarks/plane.py` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CELLS = Path(__file__).resolve().parents[1] / "results" / "data" / "plane"
RUNS = {
    "faults": "SQLite",
    "faults-postgres": "PostgreSQL, restarted",
    "faults-kafka": "SQLite and Kafka, restarted",
}
NONE = "No measurement is stored here yet. `make prove` makes one."

Rows = list[tuple[str, ...]]


def fault_table() -> tuple[tuple[str, ...], Rows]:
    """Return the head and the rows of what became of the jobs, one column for each run that is there."""
    found = {title: cell for name, title in RUNS.items() if (cell := _read(name))}
    rows = [
        ("jobs handed over", *(f"{cell['jobs']:,}" for cell in found.values())),
        ("planes killed, at work and with jobs left", *(str(cell["kills"]) for cell in found.values())),
        ("restarts of PostgreSQL or Kafka", *(str(cell["restarts"]) for cell in found.values())),
        ("lost", *(str(cell["lost"]) for cell in found.values())),
        ("ended in a final state", *(f"{cell['final']:,}" for cell in found.values())),
        ("of these failed", *(str(cell["phases"].get("failed", 0)) for cell in found.values())),
        ("completed", *(f"{cell['phases'].get('completed', 0):,}" for cell in found.values())),
        ("jobs on the cluster", *(f"{cell['cluster_jobs']:,}" for cell in found.values())),
        ("of these with a key that another has too", *(str(cell["doubled"]) for cell in found.values())),
        ("found again by their key", *(str(cell["events"].get("found-again", 0)) for cell in found.values())),
        ("seconds it took", *(f"{cell['took_s']:.0f}" for cell in found.values())),
    ]
    return ("", *found), rows if found else []


def kafka_rows() -> Rows:
    """Return what became of events and callbacks on their way over Kafka."""
    cell = _read("faults-kafka")
    if cell is None:
        return []
    kafka = cell["kafka"]
    return [
        ("there are", f"{kafka['stored']:,}", f"{kafka['callbacks']:,}"),
        ("came", f"{kafka['came']:,}", f"{kafka['callbacks_taken']:,}"),
        ("confirmed, then forgotten by the broker before anybody read them", f"{kafka['forgotten']:,}",
         f"{kafka['callbacks_forgotten']:,}"),
        ("did not come for any other reason", f"{kafka['missing']:,}", f"{kafka['callbacks_missing']:,}"),
    ]  # fmt: skip


def _read(name: str) -> dict[str, Any] | None:
    path = CELLS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
