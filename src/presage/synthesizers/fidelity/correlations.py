"""Whether columns of a synthetic trace go together as those of the log do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._jobs import NUMBERS, has, job_frame, log_numbers_of
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from presage.synthesizers.fidelity._jobs import FloatArray
    from presage.traces import Trace

    Matrix = tuple[tuple[float, ...], ...]

COMPLETED = "completed"


@dataclass(frozen=True)
class Correlations(Figures):
    """Correlations between columns, each over the jobs that have both; 0 where a column does not vary."""

    names: tuple[str, ...]
    """Logarithms of the numbers, and whether the job completed."""
    pearson_real: Matrix
    pearson_synthetic: Matrix
    spearman_real: Matrix
    spearman_synthetic: Matrix
    pearson_difference: float
    """Mean absolute difference over all pairs of different columns."""
    spearman_difference: float


def compare_correlations(real: Trace, synthetic: Trace) -> Correlations:
    """Return the correlations in both traces. Raises InputError if fewer than two columns of the log vary."""
    left, right = job_frame(real), job_frame(synthetic)
    columns = {
        name: (log_numbers_of(left, name), log_numbers_of(right, name)) for name in NUMBERS if has(left, name)
    }
    if has(left, "outcome"):
        columns[COMPLETED] = (_completed(left), _completed(right))
    columns = {name: both for name, both in columns.items() if np.nanmax(both[0]) > np.nanmin(both[0])}
    if len(columns) < 2:
        raise InputError(
            "The log has fewer than two columns that vary", expected="two, to see if they go together"
        )
    first, second = ([both[side] for both in columns.values()] for side in (0, 1))
    matrices = [correlation_matrix(each, ranks=ranks) for ranks in (False, True) for each in (first, second)]
    apart = ~np.eye(len(columns), dtype=bool)
    return Correlations(
        names=tuple(columns),
        pearson_real=_rows(matrices[0]),
        pearson_synthetic=_rows(matrices[1]),
        spearman_real=_rows(matrices[2]),
        spearman_synthetic=_rows(matrices[3]),
        pearson_difference=float(np.abs(matrices[0] - matrices[1])[apart].mean()),
        spearman_difference=float(np.abs(matrices[2] - matrices[3])[apart].mean()),
    )


def correlation_matrix(columns: list[FloatArray], *, ranks: bool) -> FloatArray:
    """Return Pearson's correlations of columns, or with `ranks` Spearman's; NaN is missing."""
    matrix = np.eye(len(columns))
    whole = [bool(np.isfinite(each).all()) for each in columns]
    if ranks:
        columns = [mean_ranks(each) if known else each for each, known in zip(columns, whole, strict=True)]
    for row in range(len(columns)):
        for column in range(row):
            known = np.isfinite(columns[row]) & np.isfinite(columns[column])
            x, y = columns[row][known], columns[column][known]
            if ranks and not (whole[row] and whole[column]):
                x, y = mean_ranks(x), mean_ranks(y)
            matrix[row, column] = matrix[column, row] = _pearson(x, y)
    return matrix


def mean_ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value from 1 on; equal ones share the mean of theirs."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: FloatArray = (last - (counts - 1) / 2)[at]
    return ranks


def _rows(matrix: FloatArray) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())


def _pearson(x: FloatArray, y: FloatArray) -> float:
    if len(x) < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    spread = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / spread if spread > 1e-12 else 0.0


def _completed(jobs: pl.DataFrame) -> FloatArray:
    return (jobs["outcome"] == Outcome.COMPLETED.value).cast(pl.Float64).fill_null(np.nan).to_numpy()
