"""How far each column of a synthetic trace is from the log's, taken by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.synthesizers.columns import PEOPLE
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._jobs import NOMINAL, NUMBERS, has, job_frame, numbers_of

if TYPE_CHECKING:
    from presage.synthesizers.fidelity._jobs import FloatArray
    from presage.traces import Trace

LEVELS = tuple(float(level) for level in np.linspace(0, 1, 201))
"""Where the quantiles of a column are taken."""
MOST_LABELS = 12
REST = "all others"
UNKNOWN = "not said"


@dataclass(frozen=True)
class NumberColumn(Figures):
    """A column of numbers in both traces; missing counts as less than all others."""

    name: str
    ks: float
    """The largest difference of the two distributions, 0 to 1."""
    real: tuple[float, ...]
    """Quantiles at `LEVELS` of the values that are known; none where no value is."""
    synthetic: tuple[float, ...]


@dataclass(frozen=True)
class LabelColumn(Figures):
    """A column of labels in both traces; missing is a label too."""

    name: str
    tv: float
    """Half the sum of the differences of shares, 0 to 1."""
    by_rank: bool
    """Whether the shares were compared by their rank, because the names mean nothing across the traces."""
    labels: tuple[str, ...]
    """The most frequent of the log (or ranks), and the rest."""
    real: tuple[float, ...]
    """Their shares."""
    synthetic: tuple[float, ...]


@dataclass(frozen=True)
class Marginals(Figures):
    """All columns that the log has, but for those in which neither trace knows more than one value."""

    mean_ks: float
    mean_tv: float
    """NaN where there is no such column."""
    mean_tv_by_label: float
    """The same with people by their names; NaN where names cannot be compared."""
    numbers: tuple[NumberColumn, ...]
    labels: tuple[LabelColumn, ...]
    people_by_label: dict[str, float]
    """Total variation of users, groups and accounts by name, where the names mean the same in both."""


def compare_marginals(real: Trace, synthetic: Trace, *, same_people: bool = False) -> Marginals:
    """Return how far each column of `synthetic` is from that of `real`.

    `same_people`: a name stands for the same user, group or account in both, so these are compared by name too.
    """
    left, right = job_frame(real), job_frame(synthetic)
    numbers = tuple(_number(name, left, right) for name in NUMBERS if _tells(name, left, right))
    told = [name for name in (*PEOPLE, *NOMINAL) if _tells(name, left, right)]
    labels = tuple(_labels(name, left, right, by_rank=name in PEOPLE) for name in told)
    people = {
        name: _labels(name, left, right, by_rank=False).tv for name in told if name in PEOPLE and same_people
    }
    return Marginals(
        mean_ks=_mean([each.ks for each in numbers]),
        mean_tv=_mean([each.tv for each in labels]),
        mean_tv_by_label=_mean([people.get(each.name, each.tv) for each in labels]) if people else np.nan,
        numbers=numbers,
        labels=labels,
        people_by_label=people,
    )


def ks_distance(left: FloatArray, right: FloatArray) -> float:
    """Return the two-sample Kolmogorov-Smirnov statistic; NaN counts as less than everything."""
    left, right = (np.sort(np.nan_to_num(each, nan=-np.inf, neginf=-np.inf)) for each in (left, right))
    everywhere = np.concatenate([left, right])
    below_left = np.searchsorted(left, everywhere, "right") / len(left)
    below_right = np.searchsorted(right, everywhere, "right") / len(right)
    return float(np.abs(below_left - below_right).max())


def total_variation(left: FloatArray, right: FloatArray) -> float:
    """Return half the sum of the absolute differences of two lists of shares."""
    return float(np.abs(left - right).sum() / 2)


def _tells(name: str, left: pl.DataFrame, right: pl.DataFrame) -> bool:
    return has(left, name) and pl.concat([left[name], right[name]]).n_unique() > 1


def _number(name: str, left: pl.DataFrame, right: pl.DataFrame) -> NumberColumn:
    values = [numbers_of(jobs, name) for jobs in (left, right)]
    known = [each[np.isfinite(each)] for each in values]
    real, synthetic = (tuple(np.quantile(each, LEVELS).tolist()) if len(each) else () for each in known)
    return NumberColumn(name, ks_distance(*values), real, synthetic)


def _labels(name: str, left: pl.DataFrame, right: pl.DataFrame, *, by_rank: bool) -> LabelColumn:
    shares = [_shares(jobs[name]) for jobs in (left, right)]
    if by_rank:
        ranked = [np.sort(np.array(list(each.values())))[::-1] for each in shares]
        length = max(len(each) for each in ranked)
        labels = [str(rank) for rank in range(1, length + 1)]
        real, synthetic = (np.pad(each, (0, length - len(each))) for each in ranked)
    else:
        first, second = shares
        labels = [*first, *(label for label in second if label not in first)]
        real, synthetic = (np.array([each.get(label, 0.0) for label in labels]) for each in shares)
    distance = total_variation(real, synthetic)
    if len(labels) > MOST_LABELS:
        labels = [*labels[:MOST_LABELS], REST]
        real, synthetic = (np.append(each[:MOST_LABELS], each[MOST_LABELS:].sum()) for each in (real, synthetic))
    return LabelColumn(name, distance, by_rank, tuple(labels), tuple(real.tolist()), tuple(synthetic.tolist()))


def _shares(values: pl.Series) -> dict[str, float]:
    """Return the share of each label, the most frequent first."""
    counts = (
        values.fill_null(UNKNOWN).alias("label").value_counts().sort(["count", "label"], descending=[True, False])
    )
    return {label: count / len(values) for label, count in counts.iter_rows()}


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else np.nan
