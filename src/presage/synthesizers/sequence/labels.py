"""Which labels of a log may be named: those that many users' weeks have, as far as noise lets one tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import ORDERED, OVER_FACTOR, OVER_S, OVER_SHARE, PEOPLE, RUN, Category, Columns
from presage.synthesizers.sequence.fields import LIMIT
from presage.synthesizers.sequence.units import label_table, limit_table

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray, IntArray, JobTable, Label
    from presage.synthesizers.sequence.budget import Budget


def labelled(columns: Columns) -> dict[str, tuple[Label, ...]]:
    """Return all columns of labels but the user's, also those that have the same in all jobs."""
    known = {each.name: each.labels for each in columns.categories if each.name != "user"}
    return {**known, **{name: (value,) for name, value in columns.constants.items() if name != "user"}}


def named(
    columns: Columns, table: JobTable, unit: IntArray, budget: Budget, secret: np.random.Generator
) -> tuple[Columns, JobTable]:
    """Return the columns with labels that may be named, and the jobs, whose `unit` is known, with such alone.

    Of a column without any nothing is kept. People other than users are numbered by how many use them, as far as
    that is released.
    """
    categories: list[Category] = []
    constants: dict[str, Label] = {}
    codes: dict[str, IntArray] = {"user": table.codes["user"]}
    for name, labels in labelled(columns).items():
        own = table.codes.get(name, np.zeros(len(table), np.int64))
        key = f"labels {name}"
        noisy = budget.released(key, label_table(unit, own, len(labels)), secret)
        kept = np.flatnonzero(noisy > budget.least_units(key))
        new = _numbered(name, noisy[kept]) if name in PEOPLE else tuple(labels[each] for each in kept)
        if len(kept) > 1:
            categories.append(Category(name, new))
            codes[name] = _nearest(name, labels, kept, noisy)[own]
        elif len(kept):
            constants[name] = new[0]
    users = next(each for each in columns.categories if each.name == "user")
    # Limits of which none may be named hold nothing.
    holds = _limits_hold(columns, table, unit, budget, secret) and (LIMIT in codes or LIMIT in constants)
    return (
        replace(columns, categories=(users, *categories), constants=constants, limits_hold=holds, grace_s=0.0),
        replace(table, codes=codes),
    )


def _limits_hold(
    columns: Columns, table: JobTable, unit: IntArray, budget: Budget, secret: np.random.Generator
) -> bool:
    """Return whether few jobs run much longer than their limits."""
    labels = labelled(columns).get(LIMIT)
    if labels is None:
        return False
    limit_s = Category(LIMIT, labels).numbers()[table.codes.get(LIMIT, np.zeros(len(table), np.int64))]
    has = ~np.isnan(limit_s)
    over = table.numbers[RUN][has] > OVER_FACTOR * limit_s[has] + OVER_S
    within, beyond = budget.released("limits", limit_table(unit[has], over), secret).tolist()
    return bool(beyond <= OVER_SHARE * (within + beyond))


def _numbered(name: str, noisy: FloatArray) -> tuple[Label, ...]:
    """Return numbers for people, the most frequent first: in which order they appeared is not told."""
    rank = np.empty(len(noisy), np.int64)
    rank[np.argsort(-noisy)] = np.arange(1, len(noisy) + 1)
    return tuple(f"{PEOPLE[name]}{place}" for place in rank.tolist())


def _nearest(name: str, labels: tuple[Label, ...], kept: IntArray, noisy: FloatArray) -> IntArray:
    """Return for each label which of those that are kept it counts as.

    A number counts as the nearest, a limit as the next longer one; any other label as the most frequent.
    """
    most = int(np.argmax(noisy[kept]))
    found = np.full(len(labels), most)
    found[kept] = np.arange(len(kept))
    if name not in ORDERED:
        return found
    numbers = Category(name, labels).numbers()
    known = np.flatnonzero(~np.isnan(numbers[kept]))
    for place in np.setdiff1d(np.flatnonzero(~np.isnan(numbers)), kept) if len(known) else ():
        away = np.log1p(np.maximum(numbers[kept[known]], 0)) - np.log1p(max(numbers[place], 0))
        if name == LIMIT and (away > 0).any():
            away = np.where(away > 0, away, np.inf)
        found[place] = known[int(np.argmin(np.abs(away)))]
    return found
