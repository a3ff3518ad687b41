"""Programs of a cluster, run with a time limit; what can go wrong has a name."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from presage.errors import ClusterRefusedError, ClusterTimeoutError, ClusterUnreachableError, CommandMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_WORDS_CHARS = 600


def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    timeout_s: float,
    remedy: str,
    unreachable: Sequence[str] = (),
    elsewhere: str = "",
) -> tuple[str, str]:
    """Return what a program wrote on its standard output and error.

    Its standard input is empty and no shell is involved. A failure whose words contain one of `unreachable` is a
    ClusterUnreachableError, any other a ClusterRefusedError. `remedy` is for a program that is not there,
    `elsewhere` for one that reaches nobody.
    """
    try:
        done = subprocess.run(  # noqa: S603  (a program of the cluster, arguments as a list)
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise ClusterTimeoutError(
            f"{command[0]} did not answer within {timeout_s:g} s",
            remedy="Ask again later; what was asked for may still have been done",
        ) from None
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        problem = f"The program {command[0]} cannot be run here: {error.strerror}"
        raise CommandMissingError(problem, remedy=remedy) from None
    except (OSError, ValueError) as error:  # too many arguments, or a NUL among them
        raise ClusterRefusedError(f"The program {command[0]} cannot be called so: {error}") from None
    out, words = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    if done.returncode:
        said = words.strip()[:_MAX_WORDS_CHARS] or f"exit code {done.returncode}"
        kind = ClusterUnreachableError if any(mark in said for mark in unreachable) else ClusterRefusedError
        is_lost = kind is ClusterUnreachableError
        raise kind(f"{command[0]} failed: {said}", remedy=elsewhere if is_lost else "")
    return out, words
