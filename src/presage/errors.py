"""Every error that Presage raises on purpose.

    PresageError                    exit code 1
    ├── UsageError                  2   the call itself is wrong: an option, a combination
    ├── UnknownNameError            2   no such format, rule, model…; says the closest match
    ├── InputError                  3   something read from outside cannot be used
    │   ├── UnreadableSourceError       a file is missing, cut off, empty, or not text
    │   ├── UnknownFormatError          no reader, or more than one, recognises a file
    │   ├── MalformedTraceError         a trace on disk breaks its own schema
    │   └── RejectedRowsError           rows were rejected and the caller asked for strictness
    ├── MissingDependencyError      4   an optional package is not installed
    ├── ConfigError                 5   a setting has a value that cannot be used
    ├── OutputError                 7   a result cannot be written: no space, no rights, a folder in its place
    └── ConnectorError              8   the cluster refuses or cannot be reached
        ├── CommandMissingError         a program of the cluster is not installed here
        ├── ClusterTimeoutError         no answer in time; what was asked for may still have been done
        ├── ClusterRefusedError         the cluster said no, in its own words
        ├── ClusterBusyError            the cluster takes no more for now; nothing was done
        └── ClusterUnreachableError     nobody answers

A message has three parts: what is wrong, what was expected, what to do. `str(error)` joins them; the parts
stay available to programs. Exit code 6 is no error: `validate` ran and found problems. 130 is Ctrl-C.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class PresageError(Exception):
    """The root of the tree; catches everything that Presage raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, expected: str = "", remedy: str = "") -> None:
        self.problem = problem.rstrip(".")
        self.expected = expected.rstrip(".")
        self.remedy = remedy.rstrip(".")
        super().__init__(problem)

    def __str__(self) -> str:
        parts = [self.problem]
        if self.expected:
            parts.append(f"Expected {self.expected}")
        if self.remedy:
            parts.append(self.remedy)
        return " ".join(part if part.endswith("?") else f"{part}." for part in parts)

    def as_dict(self) -> dict[str, str]:
        """Return the parts for machines; empty parts are left out."""
        parts = {
            "code": self.code,
            "problem": self.problem,
            "expected": self.expected,
            "remedy": self.remedy,
        }
        return {key: text for key, text in parts.items() if text}


class UsageError(PresageError):
    """The call itself is wrong."""

    code = "usage"
    exit_code = 2


class UnknownNameError(PresageError):
    """Nothing of that name is registered."""

    code = "unknown_name"
    exit_code = 2

    def __init__(self, kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> None:
        names = sorted(known)
        self.name = name
        self.suggestion = closest(name, names)
        hint = f"Did you mean {self.suggestion!r}?" if self.suggestion else remedy
        super().__init__(
            f"There is no {kind} named {name!r}",
            expected=f"one of {', '.join(names)}" if names else "",
            remedy=hint,
        )


class InputError(PresageError):
    """Something read from outside cannot be used."""

    code = "input"
    exit_code = 3


class UnreadableSourceError(InputError):
    """A file is missing, cut off, empty, or not text."""

    code = "unreadable_source"


class UnknownFormatError(InputError):
    """No reader recognises a file, or several do equally."""

    code = "unknown_format"


class MalformedTraceError(InputError):
    """A trace breaks the canonical schema."""

    code = "malformed_trace"


class RejectedRowsError(InputError):
    """Rows were rejected although the caller asked for none to be."""

    code = "rejected_rows"


class MissingDependencyError(PresageError):
    """An optional package is not installed."""

    code = "missing_dependency"
    exit_code = 4

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            remedy=f"Install it with: pip install 'presage[{extra}]'",
        )


class ConfigError(PresageError):
    """A setting has a value that cannot be used."""

    code = "config"
    exit_code = 5


class OutputError(PresageError):
    """A result cannot be written."""

    code = "output"
    exit_code = 7


class ConnectorError(PresageError):
    """The cluster refuses or cannot be reached."""

    code = "connector"
    exit_code = 8


class CommandMissingError(ConnectorError):
    """A program of the cluster is not installed here."""

    code = "command_missing"


class ClusterTimeoutError(ConnectorError):
    """The cluster did not answer in time; what was asked for may still have been done."""

    code = "cluster_timeout"


class ClusterRefusedError(ConnectorError):
    """The cluster said no, in its own words."""

    code = "cluster_refused"


class ClusterBusyError(ConnectorError):
    """The cluster takes no more for now: nothing was done, and the same may be asked for again later."""

    code = "cluster_busy"


class ClusterUnreachableError(ConnectorError):
    """Nobody answers for the cluster."""

    code = "cluster_unreachable"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.5)
    return by_folded[near[0]] if near else None


def unknown_job(job_id: str) -> UnknownNameError:
    """Return the error for a job that is not there, or is not the caller's to know of."""
    return UnknownNameError("job", job_id, [], remedy="`presage jobs` lists those there are")
