"""From a submission to what slurmrestd takes.

It knows the options of sbatch by nearly the same names, so options are made once, for both. What 22.05 cannot do
is done by the script itself. Its `argv` gives a job pieces of the environment for arguments, and then slurmrestd
dies ("double free"); a signal for the batch script (`B:USR1@60`) is refused, because only a program called sbatch
may ask for one. So a script with arguments, or one that wants to be told, is started by a small one that does
both.
"""

from __future__ import annotations

import math
import secrets
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.connectors.slurm.scripts import make_options
from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from presage.connectors._base import Submission

_NAMES = {
    "begin": "begin_time", "chdir": "current_working_directory", "error": "standard_error",
    "input": "standard_input", "job-name": "name", "kill-on-invalid-dep": "kill_on_invalid_dependency",
    "mem": "memory_per_node", "mem-per-cpu": "memory_per_cpu", "mem-per-gpu": "memory_per_gpu",
    "output": "standard_output", "time": "time_limit",
}  # fmt: skip
"""Where slurmrestd calls an option otherwise than sbatch."""
_LETTERS = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "J": "job-name", "L": "licenses", "N": "nodes",
    "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "n": "ntasks",
    "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist",
}  # fmt: skip
_DIRECTIVE = "#SBATCH"
_MINUTE_S = 60


def body_of(submission: Submission, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of the request; the job's environment is `environment` and what the submission adds.

    Directives in the script, which slurmrestd does not read, count as they do for sbatch. Raises UsageError for
    what cannot be understood.
    """
    options = make_options(replace(submission, signal=None))
    fields = _with_tasks(_fields([*_directives(submission.script), *options]))
    given = {**environment, **submission.environment}
    job = {"current_working_directory": str(Path.cwd()), **fields, "environment": given}
    return {"job": job, "script": _started(submission)}


def _fields(options: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    words = iter(options)
    for word in words:
        name, equals, value = _long(word).partition("=")
        if not equals and not word.startswith("--"):
            value, equals = next(words, ""), "="
        key = _NAMES.get(name, name.replace("-", "_"))
        found[key] = _value(key, value) if equals else True
    return found


def _with_tasks(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the number of tasks, which sbatch works out by itself.

    Without it, 22.05 counts the processors of one node for all: limits are not enforced, and a job gets too few.
    """
    nodes, per_node = (str(fields.get(name, "1")) for name in ("nodes", "ntasks_per_node"))
    if "nodes" not in fields or "ntasks" in fields or not (nodes.isdecimal() and per_node.isdecimal()):
        return fields
    return {**fields, "ntasks": int(nodes) * int(per_node)}


def _long(word: str) -> str:
    """Return an option of sbatch by its long name, without dashes: `nodes=2` for both `-N2` and `--nodes=2`."""
    if word.startswith("--"):
        return word[2:]
    if word.startswith("-") and (name := _LETTERS.get(word[1:2])):
        return f"{name}={word[2:]}" if len(word) > 2 else name
    raise UsageError(
        f"The option {word[:40]!r} of sbatch is not known to slurmrestd",
        remedy="Write it with its long name and =, or leave it out",
    )


def _value(key: str, text: str) -> Any:
    return text == "yes" if key == "kill_on_invalid_dependency" else text


def _directives(script: str) -> Iterator[str]:
    """Yield the options in the script's directives, which end at the first command."""
    for line in script.splitlines():
        if line.startswith(_DIRECTIVE):
            yield from _words(line.removeprefix(_DIRECTIVE))
        elif line.strip() and not line.startswith("#"):
            return


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        problem = f"The directive {text.strip()[:60]!r} of the script has a quote without its end"
        raise UsageError(problem) from None
    joined: list[str] = []
    for word in words:  # `--nodes 2` is `--nodes=2`
        if not word.startswith("-") and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _started(submission: Submission) -> str:
    """Return the script, or one that starts it with its arguments and tells it before its limit."""
    after_s = _signal_after_s(submission)
    if not submission.arguments and after_s is None:
        return submission.script
    first, _, _ = submission.script.removeprefix("#!").partition("\n")
    # The kernel too takes all behind the interpreter for one argument.
    command = [*first.strip().split(None, 1), "/dev/fd/3", *submission.arguments]
    end = f"END-{secrets.token_hex(8)}"
    lines = ["#!/bin/sh"]
    if after_s is not None:
        # Twice in the background, so that no `wait` of the script waits for it.
        lines.append(f"( (sleep {after_s}; kill -s {submission.signal} $$) >/dev/null 2>&1 & )")
    lines += [f"exec {shlex.join(command)} 3<<'{end}'", submission.script.removesuffix("\n"), end, ""]
    return "\n".join(lines)


def _signal_after_s(submission: Submission) -> int | None:
    """Return how long after its start a job is told; None if it need not be, or nobody knows its limit."""
    if submission.signal is None or submission.walltime_s is None:
        return None
    limit_s = math.ceil(submission.walltime_s / _MINUTE_S) * _MINUTE_S  # as Slurm counts
    return max(0, limit_s - math.ceil(submission.signal_before_s))
