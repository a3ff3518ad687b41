"""What became of jobs that predictions were made for, taken from a log of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.connectors.slurm.scripts import KEY_MARK, key_of
from presage.estimators._base import Quantity
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.estimators.repository.predictions import Predictions
    from presage.traces import Trace

_TEXTS = ("x_comment", "x_submitline")


def settle_predictions(trace: Trace, predictions: Predictions) -> int:
    """Record outcomes of jobs that carry their key in the log and have predictions without one; returns how many.

    Waits of jobs that started, run times of those that completed, and memory where the log knows it. A run that
    was cut off says only that it would have been longer, and is left out.
    """
    awaited = predictions.awaiting()
    if not awaited:
        return 0
    recorded = 0
    for key, row in _jobs_with_keys(trace):
        for quantity, actual in _outcomes(row):
            if (key, quantity) in awaited:
                predictions.record_outcome(key, quantity, actual)
                recorded += 1
    return recorded


def _jobs_with_keys(trace: Trace) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = [name for name in _TEXTS if name in trace.jobs.columns]
    if not texts:
        return
    marked = pl.any_horizontal(
        *(pl.col(name).cast(pl.String).str.contains(KEY_MARK, literal=True) for name in texts)
    )
    for row in trace.jobs.filter(marked.fill_null(False)).iter_rows(named=True):
        key = next((found for name in texts if (found := key_of(row[name] or ""))), None)
        if key is not None:
            yield key, row


def _outcomes(row: dict[str, Any]) -> Iterator[tuple[Quantity, float]]:
    if row["wait_s"] is not None and row["start_ms"] is not None:
        yield Quantity.WAIT, float(row["wait_s"])
    if row["run_s"] is not None and row["outcome"] == Outcome.COMPLETED:
        yield Quantity.WALLTIME, float(row["run_s"])
    if row["mem_used_bytes"]:
        yield Quantity.MEMORY, float(row["mem_used_bytes"])
