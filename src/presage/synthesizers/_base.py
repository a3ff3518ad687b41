"""The contract of a synthesizer: learn from a trace, draw jobs, be kept in a folder."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from threadpoolctl import threadpool_limits

import presage
from presage.errors import InputError, UsageError
from presage.synthesizers._clock import hours_of_week
from presage.synthesizers._files import read_arrays, read_head, read_known_jobs, read_people, write_model
from presage.synthesizers._load import offered_load
from presage.synthesizers.columns import Columns, JobTable, usable_jobs
from presage.synthesizers.known_jobs import KnownJobs
from presage.synthesizers.people import KnownPeople
from presage.traces.manifest import Machine
from presage.traces.workloads._parameters import Value, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray
    from presage.traces import Trace

LATER_SHARE = 0.1
"""Share of the jobs, the latest, that a training only watches itself by."""
WEEK_HOURS = 168
PRIVATE_KINDS = ("tvae", "row-transformer", "diffusion", "sequence")
"""Kinds that can learn with a promise of differential privacy."""
MOST_SEED = 2**40


@dataclass(frozen=True)
class Privacy:
    """A promise of differential privacy, and what it is about."""

    epsilon: float
    delta: float
    unit: str = ""
    """What may be in the log or not without anybody noticing; said by the kind that kept the promise."""

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf or not 0 < self.delta < 1:
            raise UsageError(
                f"There is no privacy of epsilon {self.epsilon:g} and delta {self.delta:g}",
                expected="a finite epsilon above 0 and a delta between 0 and 1",
            )


@dataclass(frozen=True)
class Training:
    """How a training is run: what does not change what is learned, but for the seed and the privacy."""

    seed: int = 0
    privacy: Privacy | None = None
    checkpoint: Path | None = None
    """Where an interrupted training goes on from; None: it begins anew."""
    progress: Callable[[int, int, str], None] | None = None
    """Told how many of how many steps are done, and in words how well it goes."""
    log: str = ""
    """What is learned from, set by `Synthesizer.train`: only the same log may go on from a checkpoint."""

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def tell(self, done: int, total: int, words: str = "") -> None:
        """Say how far the training is."""
        if self.progress is not None:
            self.progress(done, total, words)


def check_seed(seed: int) -> None:
    """Raise UsageError for a seed that no generator of random numbers takes."""
    if not 0 <= seed <= MOST_SEED:
        raise UsageError(
            f"There is no seed {seed}",
            expected=f"a whole number from 0 to {MOST_SEED:,}",
            remedy="Give another seed",
        )


def check_privacy(kind: str, training: Training) -> None:
    """Raise UsageError if the training shall be private and the kind cannot promise it."""
    if training.privacy is not None and kind not in PRIVATE_KINDS:
        raise UsageError(
            f"A {kind} model cannot keep its log private",
            expected=f"one of {', '.join(PRIVATE_KINDS)} where an epsilon is given",
            remedy="Name another kind, or leave the epsilon out",
        )


@dataclass(frozen=True)
class Source:
    """What is known of the trace that a synthesizer learned from."""

    name: str
    jobs: int
    first_ms: int
    last_ms: int
    machine: Machine
    time_zone: str | None
    absolute_time: bool
    load: float | None
    """Work of the jobs / (machine x time); None where the size of the machine is unknown."""
    week: tuple[float, ...]
    """How many jobs come in each hour of the local week, from Monday midnight; of mean 1."""

    def public(self) -> Source:
        """Return the same without what is counted over jobs: as if no load and no rhythm were known."""
        return replace(self, load=None, week=(1.0,) * len(self.week))

    def rhythm(self) -> FloatArray:
        """Return the busyness of the week's 336 half hours, of mean 1, never 0."""
        weights: FloatArray = np.repeat(np.maximum(np.array(self.week), 0.02), 2)
        weights /= weights.mean()
        return weights


class Synthesizer(ABC):
    """Makes traces like one that it learned from.

    A kind sets `name` and `settings_type` (a frozen dataclass made of `parameter` fields), learns in `_learn`,
    draws in `_draw`, and gives and takes its arrays. Everything else is done here and in `sampling`: which columns
    there are, ids, times, load, machine, mix, waits, files.

    Promises: the same trace, settings and seed give the same model in one and the same installation, but for a
    private one, whose noise nobody may know; the same model, request and seed give the same trace; every value of
    a category was seen in the log; no run goes beyond its limit where the log's limits hold, but for the seconds
    by which the log's own jobs do; users, groups and accounts are numbers.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type]
    notice: ClassVar[str] = ""
    """What people must know before they use the kind, like a licence; the command line tells it."""
    step: ClassVar[str] = "epoch"
    """What a training tells the progress of."""
    uses_history: ClassVar[bool] = False
    """Whether what is drawn depends on the jobs before it, where there are some."""

    def __init__(self, columns: Columns, source: Source, settings: Any, record: Mapping[str, Any]) -> None:
        self.columns = columns
        self.source = source
        self.settings = settings
        self.record = dict(record)
        """How the training went, for people: seconds, epochs, scores."""
        self.people: KnownPeople | None = None
        """Whom the model recognises in a history; None: nobody."""
        self.known_jobs: KnownJobs | None = None
        """The jobs that it learned from, which a trace should not tell again; None: they are not known."""

    @classmethod
    def train(
        cls, trace: Trace, settings: Mapping[str, Value] | None = None, training: Training | None = None
    ) -> Self:
        """Return a synthesizer that learned from `trace`.

        Raises InputError if the trace has too little to learn from, UsageError or UnknownNameError for a setting
        that cannot be used, MissingDependencyError if a package is missing.
        """
        training = training or Training()
        check_privacy(cls.name, training)
        own = cls.settings_type(**parse_settings(cls.settings_type, settings or {}, kind="synthesizer"))
        private = training.privacy is not None
        columns = cls._columns_of(trace, private=private)
        table = columns.encode(trace)
        source = describe_source(trace, table)
        model = cls(columns, source.public() if private else source, own, {})
        training = replace(
            training, log=f"{source.name}, {source.jobs} jobs, {source.first_ms} to {source.last_ms}"
        )
        begin = time.process_time()
        split = len(table) - int(len(table) * LATER_SHARE)
        with threadpool_limits(1, "blas"):
            record = model._learn(table.rows(slice(split)), table.rows(slice(split, None)), training)
        model.record = {
            "presage": presage.__version__,
            "seed": training.seed,
            "cpu_s": round(time.process_time() - begin, 1),
            "privacy": None if training.privacy is None else asdict(training.privacy),
            **record,
        }
        if cls.uses_history and not private:
            model.people = KnownPeople.of(trace, columns)
        return model

    @classmethod
    def _columns_of(cls, trace: Trace, *, private: bool) -> Columns:
        """Return the columns that are learned."""
        return Columns.fit(trace, public_grid=private)

    @abstractmethod
    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        """Learn from `table`, stopping early by `later`; return what the record should say besides."""

    @abstractmethod
    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        """Return `count` jobs that come one after the other from `start_ms` on.

        `gap_s` of the first is the time since `start_ms`. `submit_ms` may be None: then the gaps say it.
        """

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was learned."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take up what `_arrays` gave; KeyError and ValueError mean that the file is damaged."""

    def draw(
        self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing | None = None
    ) -> JobTable:
        """Return `count` jobs from `start_ms` on; the kind's own promises hold, nothing else is done yet."""
        # The products are small: more threads only get into each other's way.
        with threadpool_limits(1, "blas"):
            return self._draw(count, start_ms, rng, drawing or Drawing())

    def save(self, folder: str | Path) -> None:
        """Write the model. Raises OutputError if it cannot be written."""
        head = {
            "kind": self.name,
            "settings": asdict(self.settings),
            "source": asdict(self.source),
            "record": self.record,
            "columns": self.columns.to_dict(),
        }
        people = None if self.people is None else self.people.to_dict()
        known_jobs = None if self.known_jobs is None else self.known_jobs.to_arrays()
        write_model(folder, head, self._arrays(), people, known_jobs)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the model that `save` wrote. Raises InputError if there is none of this kind."""
        head = read_head(folder)
        if head["kind"] != cls.name:
            raise InputError(f"{str(folder)!r} has a {head['kind']} model", expected=f"one of kind {cls.name}")
        try:
            source = head["source"]
            model = cls(
                Columns.from_dict(head["columns"]),
                Source(**{**source, "machine": Machine(**source["machine"]), "week": tuple(source["week"])}),
                cls.settings_type(**head["settings"]),
                head["record"],
            )
            model._restore(read_arrays(folder))
            people = read_people(folder)
            model.people = None if people is None else KnownPeople.from_dict(people)
            known_jobs = read_known_jobs(folder)
            model.known_jobs = None if known_jobs is None else KnownJobs.from_arrays(known_jobs)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"The model in {str(folder)!r} is damaged: {error}",
                remedy="Train it again with `presage synth train`",
            ) from None
        return model


@dataclass(frozen=True)
class Drawing:
    """What a kind may use while it draws."""

    history: JobTable | None = None
    """Jobs before the first one, where the trace goes on from some; with their times."""
    progress: Callable[[int], None] | None = None
    """Told how many jobs were drawn since it was told before."""

    def tell(self, jobs: int) -> None:
        """Say that `jobs` more are drawn."""
        if self.progress is not None:
            self.progress(jobs)


def describe_source(trace: Trace, table: JobTable) -> Source:
    """Return what a model keeps of the trace that it learned from."""
    submit_ms = table.submit_ms
    if submit_ms is None:
        raise ValueError("a trace has times")
    manifest = trace.manifest
    jobs = usable_jobs(trace)
    return Source(
        name=manifest.name,
        jobs=len(table),
        first_ms=int(submit_ms[0]),
        last_ms=int(submit_ms[-1]),
        machine=manifest.machine,
        time_zone=manifest.time_zone,
        absolute_time=manifest.absolute_time,
        load=offered_load(jobs, submit_ms, manifest.machine),
        week=tuple(week_profile(submit_ms, manifest.time_zone).tolist()),
    )


def week_profile(submit_ms: NDArray[np.int64], time_zone: str | None) -> FloatArray:
    """Return how busy each hour of the local week is, of mean 1."""
    counts = np.bincount(hours_of_week(submit_ms, time_zone), minlength=WEEK_HOURS).astype(np.float64)
    return counts / max(float(counts.mean()), 1e-9)
