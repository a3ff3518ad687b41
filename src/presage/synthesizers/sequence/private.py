"""Learning under a promise about users' weeks: nothing of the log is kept but noisy tables and noisy steps.

What is released, in this order, each from users' weeks of which none counts for more than a length of 1:

1. how many users' weeks use each label of a column, and whether limits hold (`labels`);
2. who comes when, and with how many jobs; from these, weeks that nobody had are drawn (`invented`);
3. how often words come, how often again, and at which hours;
4. the steps of the network.

Everything else of the model is made from these and from what is public, and needs no promise of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.synthesizers._private import Descent
from presage.synthesizers.columns import GAP, PEOPLE, RUN, SIZE, Category
from presage.synthesizers.sequence.budget import Budget, shares_of
from presage.synthesizers.sequence.calibration import Drawn
from presage.synthesizers.sequence.examples import echoes, make_examples
from presage.synthesizers.sequence.features import moments_of, work_of
from presage.synthesizers.sequence.fields import REST_KNOTS, known_numbers, public_fields
from presage.synthesizers.sequence.forward import Weights
from presage.synthesizers.sequence.invented import habits_of, invent, quantiles
from presage.synthesizers.sequence.labels import labelled, named
from presage.synthesizers.sequence.meanings import CALM_GAP_S
from presage.synthesizers.sequence.training import private_recipe, train_privately
from presage.synthesizers.sequence.units import ECHO_EDGES, plan_tables, units_of, whole_days, word_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Source, Training
    from presage.synthesizers.columns import Columns, FloatArray, JobTable
    from presage.synthesizers.sequence.examples import Examples
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.plans import Activity
    from presage.synthesizers.sequence.settings import Settings
    from presage.synthesizers.sequence.units import Units

UNIT = "all jobs of one user in one week, Monday to Sunday; not all weeks of a user"
PUBLIC = (
    "taken as public, not protected: which columns the log has, on which days it begins and ends, its name, its"
    " machine and time zone, how long the training took, and where no delta was given the number of jobs to"
    " about a power of ten, which delta then tells"
)
FEWEST_UNITS = 50
PART = 3
"""A private model has that many times fewer ranges: every range has its noise."""
PLAN = {
    "weeks": 1.0, "users": 1.0, "jobs": 2.0, "days": 1.0, "weekdays": 0.5, "evenness": 0.5, "work": 1.0,
    "changes": 0.3,
}  # fmt: skip
"""Tables of who comes when → weight in the budget; and so with tables of jobs."""
JOBS = {"hours": 1.0, "starts": 0.5, "again": 1.0, "echo": 0.3}
LABELS, WORDS, NUMBERS, LIMITS = 2.0, 1.0, 1.5, 1.0
LEAST_BUSY = 0.02
LEAST_OFTEN = 0.02
WANTED_JOBS = 20_000


@dataclass(frozen=True)
class Learned:
    """A private model, but for its calibration."""

    columns: Columns
    source: Source
    activity: Activity
    fields: Fields
    weights: Weights
    week: FloatArray
    wanted: Wanted
    record: dict[str, Any]


@dataclass(frozen=True)
class Wanted(Drawn):
    """Jobs of nobody that have each word as often as noisy tables say: what calibration compares with."""

    often: FloatArray
    """How often each field is as in the job before."""

    def repeated(self, place: int, fields: Fields) -> float:
        """Return how often a field is as in the job before."""
        return float(self.often[place])


class Release:
    """A budget that is being spent."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        # Not from the seed of the training: noise that can be made again can be taken off again.
        self.secret = np.random.default_rng()

    def all(self, tables: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """Return the tables with their noise."""
        return {name: self.budget.released(name, exact, self.secret) for name, exact in tables.items()}


def learn(columns: Columns, source: Source, table: JobTable, settings: Settings, training: Training) -> Learned:
    """Return what is learned under `training.privacy` from the jobs of `table`, with their times.

    Raises InputError where the log knows no users or too few of their weeks, UsageError where the noise would be
    larger than what there is to learn.
    """
    if training.privacy is None or table.submit_ms is None:
        raise ValueError("a private training has a promise to keep, and jobs have times")
    _check_users(columns)
    calendar = whole_days(source.first_ms, source.last_ms, source.time_zone)
    units = units_of(table.submit_ms, table.codes["user"], calendar)
    release = Release(Budget.of(training.privacy, table_weights(columns), len(labelled(columns))))
    budget = release.budget
    table = replace(table, numbers={**table.numbers, RUN: np.rint(table.numbers[RUN])})
    columns, table = named(columns, table, units.of_jobs(), budget, release.secret)

    known = known_numbers(columns, table.rows(units.streams.order))
    plan = release.all(plan_tables(units, np.rint(work_of(known[SIZE], known[RUN]))))
    count = float(plan["weeks"].sum())
    _check_units(count, budget)
    rng = np.random.default_rng((training.seed, 2))
    activity = invent(habits_of(plan, budget.noise), calendar, rng)
    users = int(activity.user.max()) + 1
    columns = _with_users(columns, users)

    fields = public_fields(columns, max(settings.ranges // PART, 4))
    examples, exact = _count_jobs(table, units, fields, known)
    words = release.all(exact)
    shares = [shares_of(words[f"words {name}"]) for name in fields.names]
    fields = replace(fields, echo=quantiles(shares_of(words["echo"]), ECHO_EDGES, REST_KNOTS))
    descent = Descent.of(max(count, 1.0), private_recipe(settings), budget.rest, budget.looks)
    kept = replace(training, privacy=budget.rest)
    network = train_privately(examples, units.streams, shares, fields, columns, settings, kept, descent)
    return Learned(
        columns=columns,
        source=_source(source, units, activity, week_of(shares_of(words["hours"]))),
        activity=activity,
        fields=fields,
        weights=Weights(_of_nobody(network.plain_arrays(), users)),
        week=week_of(shares_of(words["starts"])),
        wanted=_wanted(shares, words),
        record=_record(settings, budget, descent),
    )


def table_weights(columns: Columns) -> dict[str, float]:
    """Return all tables that may be released of a log of these columns, with their weights in the budget.

    Some are not, in the end: where a column has no label that may be named. They count all the same.
    """
    names = list(labelled(columns))
    return {
        **PLAN,
        **JOBS,
        "limits": LIMITS,
        **{f"labels {name}": LABELS for name in names},
        **{f"words {name}": WORDS for name in names},
        **{f"words {name}": NUMBERS for name in (GAP, RUN)},
    }


def week_of(shares: FloatArray) -> FloatArray:
    """Return how busy each hour of the week is, of mean 1 and never 0, from shares of hours of two sorts of days.

    Neighbouring hours lean on each other: their noise is larger than their difference.
    """
    kinds = shares.reshape(2, 24)
    smooth = (np.roll(kinds, 1, axis=1) + 2 * kinds + np.roll(kinds, -1, axis=1)) / 4
    week = np.concatenate([np.tile(smooth[0] / 5, 5), np.tile(smooth[1] / 2, 2)])
    week = np.maximum(week, LEAST_BUSY * week.mean())
    return week / week.mean()


def _count_jobs(
    table: JobTable, units: Units, fields: Fields, known: dict[str, FloatArray]
) -> tuple[Examples, dict[str, FloatArray]]:
    """Return the jobs as examples, of nobody in particular, and their tables without noise."""
    if table.submit_ms is None:
        raise ValueError("these jobs have times")
    moment, gap_s = moments_of(table.submit_ms, units.streams, units.calendar, known)
    nobody = np.zeros(len(table), np.int64)
    examples = make_examples(fields, table, units.streams, moment, gap_s, nobody)
    hours = (moment.now_s + gap_s) / 3600
    again = echoes(examples, known[RUN])
    return examples, word_tables(units, examples, fields, hours, gap_s >= CALM_GAP_S, again)


def _with_users(columns: Columns, users: int) -> Columns:
    """Return the columns with users that were invented."""
    invented = Category("user", tuple(f"{PEOPLE['user']}{number}" for number in range(1, users + 1)))
    rest = tuple(each for each in columns.categories if each.name != "user")
    return replace(columns, categories=(invented, *rest))


def _of_nobody(arrays: dict[str, NDArray[np.float32]], users: int) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a network that knows nobody, for so many users, who are all alike."""
    by_user = {name for name in arrays if name == "user.weight" or name.startswith("usual.")}
    return {
        name: np.repeat(array[:1], users + 1, axis=0) if name in by_user else array
        for name, array in arrays.items()
    }


def _source(source: Source, units: Units, activity: Activity, week: FloatArray) -> Source:
    """Return what is said of the log: its days, about how many jobs, and at which hours."""
    calendar = units.calendar
    first_ms, last_ms = (int(calendar.monday_ms + 1000 * each) for each in (calendar.first_s, calendar.last_s))
    return replace(
        source, jobs=int(activity.jobs.sum()), first_ms=first_ms, last_ms=last_ms, week=tuple(week.tolist())
    )


def _wanted(shares: list[FloatArray], words: dict[str, FloatArray]) -> Wanted:
    places = (np.arange(WANTED_JOBS) + 0.5) / WANTED_JOBS
    drawn = [
        np.searchsorted(np.cumsum(each), places * each.sum()) for each in (*shares, shares_of(words["hours"]))
    ]
    kinds = drawn.pop()
    counted, same = words["again"].reshape(-1, 2).T
    often = np.clip(same / np.maximum(counted, 1e-9), LEAST_OFTEN, 1 - LEAST_OFTEN)
    hours = np.where(kinds < 24, kinds, kinds % 24 + 5 * 24).astype(np.float64)
    return Wanted(np.column_stack(drawn), np.zeros(WANTED_JOBS, np.bool_), hours, often)


def _record(settings: Settings, budget: Budget, descent: Descent) -> dict[str, Any]:
    return {
        "epochs": settings.epochs,
        "best_epoch": settings.epochs,
        "scores": [],
        "privacy": {
            "epsilon": descent.spent(budget.rest.delta),
            "delta": budget.privacy.delta,
            "noise": descent.noise,
            "table_noise": {name: round(noise, 4) for name, noise in budget.noise.items()},
            "unit": UNIT,
            "public": PUBLIC,
            "people": "invented",
        },
    }


def _check_users(columns: Columns) -> None:
    if columns.category("user") is None:
        raise InputError(
            "The log does not tell its users apart, so that nobody's weeks can be kept private",
            expected="a log with several users for a private sequence model",
            remedy="Name another kind, like tvae, whose promise is about single jobs",
        )


def _check_units(count: float, budget: Budget) -> None:
    """Raise what is wrong with about `count` units, which is a noisy number and may be told."""
    if count < FEWEST_UNITS:
        raise InputError(
            f"The log has only about {max(count, 0):.0f} weeks of users",
            expected=f"at least {FEWEST_UNITS}, so that one can hide among them",
            remedy="Give a longer log, or name another kind, like tvae, whose promise is about single jobs",
        )
    least = max((budget.least_units(name) for name in budget.noise if name.startswith("labels ")), default=0.0)
    if least > count / 2:
        raise UsageError(
            f"With epsilon {budget.privacy.epsilon:g} only what {least:.0f} of about {count:.0f} weeks of users"
            " have in common could be told",
            expected="an epsilon that leaves something to learn",
            remedy="Allow a larger epsilon or delta, or give a longer log",
        )
