"""What `presage plan` understands: amounts, places, deadlines and budgets as people write them."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from presage.cli._output import pairs_in
from presage.errors import UsageError
from presage.units import parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.clusters.systems import System
    from presage.estimators._base import Knowledge
    from presage.estimators.spread import Spread
    from presage.estimators.workloads import TrainingWorkload
    from presage.planner.cascades import Night
    from presage.planner.constraints import Budget

_BUDGET = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<currency>[A-Za-z]\w*)?")
_NIGHT = re.compile(r"(?P<begins>\d{1,2})(?::00)?-(?P<ends>\d{1,2})(?::00)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OPERATORS = ";&|()\n"
_FILLED_IN = frozenset("$`*?[~<>")
_HOUR_S = 3600.0
_DAY_H = 24


def spread_in(text: str, parse: Callable[[str], float], option: str) -> Spread:
    """Return an amount, or p10..p50..p90 of one. Raises UsageError."""
    from presage.estimators.spread import Spread

    amounts = [named(option, part, parse) for part in text.split("..")]
    if len(amounts) == 1:
        return Spread.exactly(amounts[0])
    try:
        low, middle, high = amounts
        return Spread(low, middle, high)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no amount",
            expected="one amount, or three in rising order like 20h..26h..40h: p10, p50 and p90",
        ) from None


def named(option: str, text: str, parse: Callable[[str], float]) -> float:
    """Return the amount that an option was given. Raises UsageError that says which option."""
    try:
        return parse(text)
    except UsageError as error:
        dated = "a date like 2030-01-31T18:00, or " if option == "--deadline" else ""
        raise UsageError(f"{option} {error.problem}", expected=f"{dated}{error.expected}") from None


def times_in(texts: list[str] | None, option: str, parse: Callable[[str], float]) -> dict[str, Spread]:
    """Return times by patterns of places. Raises UsageError."""
    return {place: spread_in(text, parse, option) for place, text in pairs_in(texts, option).items()}


def hours(text: str) -> float:
    """Return seconds; a number without a unit is hours. Raises UsageError."""
    return float(text) * _HOUR_S if _NUMBER.fullmatch(text.strip()) and len(text) < 10 else parse_seconds(text)


def deadline_in(text: str | None, now: datetime) -> float | None:
    """Return how many seconds are left until a date, or a duration. Raises UsageError."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return named("--deadline", text, parse_seconds)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    left_s = (moment - now).total_seconds()
    if left_s <= 0:
        raise UsageError(f"--deadline {text} is past", expected="a date to come, or a duration like 24h")
    return left_s


def budget_in(text: str | None) -> Budget | None:
    """Return an amount with or without its currency. Raises UsageError."""
    from presage.planner.constraints import Budget

    if text is None:
        return None
    match = _BUDGET.fullmatch(text.strip())
    if match is None or len(match["amount"]) > 15:
        raise UsageError(f"--budget {text!r} is no amount", expected="one like 5 or '5 USD'")
    return Budget(float(match["amount"]), match["currency"])


def night_in(text: str | None) -> Night | None:
    """Return the hours in which development queues idle. Raises UsageError."""
    from presage.planner.cascades import Night

    if text is None:
        return None
    match = _NIGHT.fullmatch(text.strip())
    begins, ends = (int(match["begins"]), int(match["ends"])) if match else (0, 0)
    if begins == ends or max(begins, ends) >= _DAY_H:
        raise UsageError(f"--night {text!r} cannot be", expected="hours of the day like 20-8")
    return Night(begins, ends)


def command_in(text: str | None, training: TrainingWorkload | None) -> tuple[str, ...]:
    """Return the words of what is to be run; a training in a file runs that file. Raises UsageError."""
    if text is not None:
        return _words_of(text)
    file = training.model.partition(":")[0] if training is not None else ""
    return ("python", file) if file.endswith(".py") else ()


def _words_of(text: str) -> tuple[str, ...]:
    """Return one program with its arguments; a shell fills in variables and patterns where the job runs."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = tuple(lexer)
    except ValueError as error:
        raise UsageError(f"--run {text!r} is no command: {error}", remedy="Check its quotes") from None
    if not words:
        raise UsageError("--run names nothing", expected="a command like 'python train.py'")
    if any(set(word) <= set(_OPERATORS) for word in words if word):
        # The shell between would get the signal to save and stop, and the program would not.
        raise UsageError(
            f"--run {text!r} is more than one command", expected="one program with its arguments",
            remedy="Put the commands into a script that ends with exec PROGRAM, and run that",
        )  # fmt: skip
    if set(text) & _FILLED_IN:
        return ("sh", "-c", f"exec env {text.strip()}")
    return tuple(shlex.split(text))


def systems_in(names: list[str] | None) -> list[System]:
    """Return the systems of the catalogue, and of TOML files, that were named. Raises UsageError, InputError."""
    from presage.cli._systems_texts import read_systems
    from presage.clusters.catalogue import Catalogue

    if not names:
        raise UsageError(
            "No system is named",
            expected="at least one --system NAME, or a TOML file",
            remedy="`presage systems list` has the names",
        )
    catalogue = Catalogue()
    systems: dict[str, System] = {}
    for name in names:
        system = read_systems([name])[0] if Path(name).suffix == ".toml" else catalogue.get(name)
        if system.name in systems:
            raise UsageError(f"The system {system.name!r} is named twice", expected="each system once")
        systems[system.name] = system
    return list(systems.values())


def knowledge_in(texts: list[str] | None, systems: list[System]) -> dict[str, Knowledge]:
    """Return what logs tell, by system: `LOG` for the only one, `SYSTEM=LOG` among several. Raises UsageError."""
    from presage.cli.trace import read_files
    from presage.estimators._base import Knowledge

    names = [system.name for system in systems]
    logs: dict[str, list[str]] = {}
    for text in texts or []:
        name, equals, log = text.partition("=")
        if equals and name in names:
            logs.setdefault(name, []).append(log)
        elif len(names) == 1:
            logs.setdefault(names[0], []).append(text)
        else:
            raise UsageError(
                f"--history {text!r} does not say which system it is of", expected=f"one like {names[0]}={text}"
            )
    return {name: Knowledge(history=read_files(files, None, None)) for name, files in logs.items()}
