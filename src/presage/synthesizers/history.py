"""What came before a trace: jobs that a model goes on from, with its own numbers for their people.

A person whom the model knows (see `people`) keeps their number. Anybody else becomes one of the model's people who
are not in the history, drawn by the seed; those who came last are the first to get one. Jobs of people for whom
none is left, and jobs with labels that the model has never seen, are not remembered.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.synthesizers.columns import OTHER, PEOPLE, JobTable, timed_jobs
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.synthesizers._base import Synthesizer
    from presage.synthesizers.columns import Category, Columns, IntArray
    from presage.traces import Trace

    NumberOf = Callable[[str, str], str | None]

DRAWN = "; Computer: synthetic "
"""How the header of an SWF file begins to say whose log a synthesizer learned from."""
_NOBODY = -1


@dataclass(frozen=True)
class History:
    """Jobs to go on from, and what people should know of them."""

    table: JobTable | None
    """None where there is nothing that the model can use."""
    notes: tuple[str, ...] = ()


def history_of(model: Synthesizer, trace: Trace, start_ms: int, rng: np.random.Generator) -> History:
    """Return the jobs of `trace` up to `start_ms` as `model` sees them.

    One job is enough. Raises InputError if there is none with a submit time and a run time.
    """
    if not model.uses_history:
        return History(
            None, (f"a {model.name} model remembers no jobs: of those before only the last time is used",)
        )
    jobs = timed_jobs(trace).filter(pl.col("submit_ms") <= start_ms)
    if not len(jobs):
        raise InputError(
            "No job of the trace to go on from has a run time and came before the start",
            expected="at least one job with a submit time and a run time",
            remedy="Name another trace, or leave it out",
        )
    number_of, notes = _recognised(model, trace)
    strangers = _Strangers(number_of, rng)
    # Users first: jobs of those for whom there is no number left count for nothing else.
    codes: dict[str, IntArray] = {}
    for category in sorted(model.columns.categories, key=lambda each: each.name != "user"):
        found = (
            strangers.codes(category, jobs) if category.name in PEOPLE else _codes(category, jobs[category.name])
        )
        known = found != _NOBODY
        if not known.all():
            notes.append(_left_out(category.name, len(jobs) - int(known.sum()), len(jobs)))
        jobs = jobs.filter(pl.Series(known))
        codes = {name: values[known] for name, values in (codes | {category.name: found}).items()}
    notes += strangers.notes
    if not len(jobs):
        return History(None, (*notes, "nothing of the jobs before is left to go on from but their last time"))
    numbers = {each.name: jobs[each.name].to_numpy() for each in model.columns.numbers}
    return History(JobTable(codes, numbers, jobs["submit_ms"].to_numpy()), tuple(notes))


def identity_of(columns: Columns) -> str:
    """Return a short name of what a model knows of its log, by which its own traces are recognised."""
    told = json.dumps(columns.to_dict(), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _recognised(model: Synthesizer, trace: Trace) -> tuple[NumberOf, list[str]]:
    """Return what gives people their numbers in the model, and what there is to say about that."""
    generator = trace.manifest.generator
    if generator.get("model") == identity_of(model.columns):
        return (lambda _, name: name), []
    if not any(model.columns.category(column) for column in PEOPLE):
        return (lambda _, __: None), []
    drawn = "synthesizer" in generator or any(line.startswith(DRAWN) for line in trace.manifest.header)
    if drawn and trace.manifest.name != model.source.name:
        why = "the jobs before are of another model, or do not say that they are of this one"
        return (lambda _, __: None), [f"{why}: all their people are new to it"]
    if model.people is None:
        why = "a private model" if model.record.get("privacy") else "this model"
        return (lambda _, __: None), [f"{why} cannot recognise people: all those of the jobs before are new to it"]
    return model.people.number_of, []


class _Strangers:
    """Gives people the numbers that they have, and numbers that nobody has to those who have none."""

    def __init__(self, number_of: NumberOf, rng: np.random.Generator) -> None:
        self.number_of = number_of
        self.rng = rng
        self.notes: list[str] = []

    def codes(self, category: Category, jobs: pl.DataFrame) -> IntArray:
        """Return a code for each job; `_NOBODY` where nobody is named, or no number is left for a user."""
        places = {label: code for code, label in enumerate(category.labels)}
        names = jobs[category.name]
        latest_first = names.drop_nulls().reverse().unique(maintain_order=True).to_list()
        numbers = {name: self.number_of(category.name, name) for name in latest_first}
        code_of = {name: places[number] for name, number in numbers.items() if number in places}
        people = {code for label, code in places.items() if label not in (None, OTHER)}
        new = [name for name in latest_first if name not in code_of]
        free = self.rng.permutation(sorted(people - set(code_of.values()))).tolist()
        code_of |= dict(zip(new, free, strict=False))
        if category.name == "user":
            if new and code_of:
                self.notes.append(
                    f"{len(new):,} of {len(latest_first):,} users of the jobs before are new to the model"
                )
        else:
            # Groups and accounts may be shared where there are not enough of them.
            shared = self.rng.choice(sorted(people), max(len(new) - len(free), 0)).tolist()
            code_of |= dict(zip(new[len(free) :], shared, strict=True))
        nobody = places.get(None, _NOBODY)
        told = [nobody if name is None else code_of.get(name, _NOBODY) for name in names.to_list()]
        return np.array(told, np.int64)


def _codes(category: Category, values: pl.Series) -> IntArray:
    """Return a code for each value; `_NOBODY` for a label that the model does not know, but not for a number."""
    known = set(category.labels)
    strange = {value for value in values.unique().to_list() if value not in known}
    if OTHER in known:
        strange.clear()
    elif category.ordered:
        strange &= {None}
    found = category.encode(values)
    found[np.array([value in strange for value in values.to_list()], np.bool_)] = _NOBODY
    return found


def _left_out(column: str, jobs: int, told: int) -> str:
    why = "the model has no number left for their users"
    if column != "user":
        why = f"the model does not know their {column}"
    return f"{counted(jobs, 'job')} of {told:,} before cannot be remembered: {why}"
