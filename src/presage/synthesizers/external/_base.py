"""What the kinds that drive another project's library have in common.

Such a library keeps its model in files that run code when they are read (pickle). These are never kept here, and
never read. What a model of these kinds keeps instead is a pool: rows that the library drew right after it had
learned. Jobs are drawn from the pool, each row once before any comes again. Rows of these kinds do not know of
each other, so a pool is as good as its library as long as fewer jobs are wanted than it has. Loading a model and
drawing from it do not need the library any more.

These libraries learn in one call that tells nothing while it runs: it cannot be stopped early by later jobs, and
what was interrupted begins anew. People are told in which of three phases the training is.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from abc import abstractmethod
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from presage.errors import InputError, MissingDependencyError, PresageError
from presage.synthesizers._base import Synthesizer
from presage.synthesizers.columns import JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import Columns, Number

_MOST_ROUNDS = 20
IN_ONE_CALL = "The library learns in one call: no early stop, no --resume, and progress is told by phases alone."
PHASES = ("writing jobs as a table", "learning", "drawing rows to keep")


@dataclass(frozen=True)
class Settings:
    """How long the library learns, and how much is kept of what it can draw."""

    epochs: int = parameter(50, "rounds through all jobs", minimum=1, maximum=100_000)
    pool: int = parameter(50_000, "rows that the model keeps", minimum=100, maximum=10_000_000)


class External(Synthesizer):
    """A synthesizer of another project, through the rows that it draws."""

    settings_type: ClassVar[type] = Settings
    package: ClassVar[str]
    """What is installed; `extra` is what installs it."""
    extra: ClassVar[str]
    notice: ClassVar[str] = IN_ONE_CALL
    step: ClassVar[str] = "phase"
    pool: JobTable

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        known = JobTable.joined([table, later])
        try:
            with _seeded(training.seed), tempfile.TemporaryDirectory() as folder:
                _tell_phase(training, 0)
                frame = to_frame(known, self.columns)
                _tell_phase(training, 1)
                library = self._fit(frame, training.seed, folder)
                _tell_phase(training, 2)
                self.pool, lost = self._fill(library)
        except ImportError as error:
            raise self._missing(error) from error
        return {
            "library": f"{self.package} {_version(self.package)}",
            "pool": len(self.pool),
            "unusable_rows": lost,
            "notice": self.notice,
        }

    def _missing(self, error: ImportError) -> PresageError:
        """Return what to tell people: the library is not there, or it is and does not work."""
        if (error.name or "").partition(".")[0] in (self.extra, "pandas"):
            return MissingDependencyError(self.package, extra=self.extra, purpose=f"A {self.name} model")
        return PresageError(
            f"{self.package} is installed but cannot be used: {str(error).partition(chr(10))[0]}",
            remedy=f"Install it anew, in an environment of its own, with: pip install 'presage[{self.extra}]'",
        )

    @abstractmethod
    def _fit(self, frame: Any, seed: int, folder: str) -> Any:
        """Return the library's model of a pandas frame, in which categories are words.

        `folder` is for files that it needs until the pool is drawn. ImportError means that it is not installed.
        """

    @abstractmethod
    def _rows(self, library: Any, count: int) -> Any:
        """Return a pandas frame of about `count` rows that the library draws."""

    def _fill(self, library: Any) -> tuple[JobTable, int]:
        """Return as many usable rows as the pool shall have, and how many were not usable."""
        wanted, lost = self.settings.pool, 0
        found: list[JobTable] = []
        for _ in range(_MOST_ROUNDS):
            missing = wanted - sum(len(each) for each in found)
            if missing <= 0:
                break
            frame = self._rows(library, missing + missing // 10 + 10)  # some may be unusable
            found.append(from_frame(frame, self.columns))
            lost += len(frame) - len(found[-1])
        pool = JobTable.joined(found)
        if not len(pool):
            raise InputError(
                f"{self.package} drew no row that could be a job",
                expected="labels that the log has, and numbers",
                remedy="Let it learn for more epochs, or use another kind",
            )
        return pool.rows(slice(wanted)), lost

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        rounds = [rng.permutation(len(self.pool)) for _ in range(-(-count // len(self.pool)))]
        drawing.tell(count)
        return self.pool.rows(np.concatenate(rounds)[:count])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        codes = {f"codes/{name}": values.astype(np.int32) for name, values in self.pool.codes.items()}
        return {**codes, **{f"numbers/{name}": values for name, values in self.pool.numbers.items()}}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.pool = JobTable(
            {each.name: arrays[f"codes/{each.name}"].astype(np.int64) for each in self.columns.categories},
            {each.name: arrays[f"numbers/{each.name}"] for each in self.columns.numbers},
        )
        for each in self.columns.categories:
            codes = self.pool.codes[each.name]
            if len(codes) != len(self.pool) or not len(codes) or codes.min() < 0 or codes.max() >= len(each):
                raise ValueError(f"{each.name} has labels that are not known")


def _tell_phase(training: Training, phase: int) -> None:
    training.tell(phase + 1, len(PHASES), PHASES[phase])


def to_frame(table: JobTable, columns: Columns) -> Any:
    """Return the jobs as a pandas frame: categories as words like `v12`, numbers as they are."""
    import pandas as pd

    words = {each.name: np.array([f"v{code}" for code in range(len(each))], object) for each in columns.categories}
    told = {name: known[table.codes[name]] for name, known in words.items()}
    numbers = {each.name: _whole_or_not(each, table.numbers[each.name]) for each in columns.numbers}
    return pd.DataFrame({**told, **numbers})


def from_frame(frame: Any, columns: Columns) -> JobTable:
    """Return the rows of a frame like `to_frame`'s that are jobs; numbers stay within the range of the log."""
    codes, numbers = {}, {}
    usable = np.ones(len(frame), bool)
    for category in columns.categories:
        places = {f"v{code}": code for code in range(len(category))}
        codes[category.name] = np.array([places.get(str(word), -1) for word in frame[category.name]], np.int64)
        usable &= codes[category.name] >= 0
    for number in columns.numbers:
        values = np.array([_number(value) for value in frame[number.name]])
        usable &= np.isfinite(values)
        numbers[number.name] = number.rounded(np.clip(values, number.knots[0], number.knots[-1]))
    return JobTable(codes, numbers).rows(usable)


def _whole_or_not(number: Number, values: NDArray[np.float64]) -> NDArray[Any]:
    return values.astype(np.int64) if number.step >= 1 else values


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators of the whole process, which is all that these libraries know, and put them back."""
    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (the libraries use it)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    with contextlib.suppress(ImportError):
        import torch

        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)  # noqa: NPY002
