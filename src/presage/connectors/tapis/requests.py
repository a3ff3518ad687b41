"""From a submission to what Tapis is asked for.

Tapis writes parts of it into scripts and `#SBATCH` lines. So names are made of characters that mean nothing to a
shell, options must look like such, and the script, its arguments and its environment travel packed.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from presage.connectors.tapis.applications import Runtime
from presage.connectors.tapis.payload import MAX_CHARS, VARIABLE, pack
from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from presage.connectors._base import Submission
    from presage.connectors.tapis.applications import Application

MIB = 2**20
MINUTE_S = 60
KEY_MARK = "presage:key="
MAX_NAME_CHARS = 64
_MAX_INT32 = 2**31 - 1
_WORD = re.compile(r"[\w.,:@+-]+", re.ASCII)
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]*(?:[ =][\w.,:@%+/=\[\]-]+)?", re.ASCII)
_HARMLESS = re.compile(r"[\w=-]*", re.ASCII)
_STRANGE = re.compile(r"[^\w.,:@+=-]+", re.ASCII)


def job_request(
    submission: Submission,
    application: Application,
    system: str | None,
    *,
    dependencies: Sequence[str] = (),
    profile: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the body of a request for a job.

    `dependencies` are the ids that the system's own scheduler has given to the jobs to wait for. `profile` is a
    scheduler profile of Tapis, whatever the site wants to be said. `variables` are what an image gets that has no
    script to run, instead of one. Raises UsageError for what Tapis cannot carry.
    """
    given = {VARIABLE: _packed(submission)} if variables is None else _plain(variables)
    request = {
        "name": job_name(submission.name),
        "appId": application.app_id,
        "appVersion": application.version,
        "execSystemId": system,
        "execSystemLogicalQueue": _word("queue", submission.partition),
        "nodeCount": _whole("nodes", submission.nodes),
        "coresPerNode": _whole("cores", _cores(submission)),
        "memoryMB": _whole("MiB of memory", _rounded_up(submission.memory_bytes, MIB)),
        "maxMinutes": _whole("minutes", _rounded_up(submission.walltime_s, MINUTE_S)),
        "parameterSet": {
            "appArgs": _arguments(application.command),
            "containerArgs": _arguments(_container_arguments(submission, application)),
            "schedulerOptions": _arguments(_scheduler_options(submission, dependencies, profile)),
            "envVariables": [{"key": name, "value": value} for name, value in given.items()],
        },
        "tags": ["presage", f"{KEY_MARK}{submission.key}"],
        "notes": {
            "presage": {"key": submission.key, "name": submission.name, "comment": submission.comment[:4000]}
        },
    }
    return {name: value for name, value in request.items() if value is not None}


def job_name(name: str) -> str:
    """Return a name as Tapis takes it: up to 64 letters, digits and harmless signs."""
    return _STRANGE.sub("_", name).strip("_")[:MAX_NAME_CHARS] or "job"


def key_of(tags: Iterable[object]) -> str | None:
    """Return the key among the tags of a job, None if there is none."""
    found = (str(tag) for tag in tags)
    return next((tag.removeprefix(KEY_MARK) for tag in found if tag.startswith(KEY_MARK)), None)


def _packed(submission: Submission) -> str:
    text = pack(
        {
            "script": submission.script,
            "arguments": list(submission.arguments),
            "environment": dict(submission.environment),
            "working_directory": submission.working_directory,
            "output": submission.output,
            "signal": submission.signal,
            "signal_before_s": submission.signal_before_s,
        }
    )
    if len(text) > MAX_CHARS:
        raise UsageError(
            f"Script, arguments and environment are {len(text):,} characters when packed",
            expected=f"at most {MAX_CHARS:,}",
            remedy="Put what is long into the container image or into files of the system",
        )
    return text


def _plain(variables: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in variables.items():
        if len(value) > MAX_CHARS or not _HARMLESS.fullmatch(value) or not name.isidentifier():
            raise UsageError(
                f"The variable {name[:40]!r} of {len(value):,} characters cannot be given to an image",
                expected=f"at most {MAX_CHARS:,} letters, digits, dashes and underscores",
            )
    return variables


def _container_arguments(submission: Submission, application: Application) -> list[str]:
    arguments = list(application.container_arguments)
    if submission.gpus_per_node:
        arguments.append("--nv" if application.runtime == Runtime.SINGULARITY else "--gpus all")
    return arguments


def _scheduler_options(submission: Submission, dependencies: Sequence[str], profile: str | None) -> list[str]:
    gpus, kind = submission.gpus_per_node, _word("GPU type", submission.gpu_type)
    options = {
        "tapis-profile": _word("scheduler profile", profile),
        "account": _word("account", submission.account),
        "qos": _word("QOS", submission.qos),
        "ntasks-per-node": submission.tasks_per_node,
        "gpus-per-node": (f"{kind}:{gpus}" if kind else gpus) if gpus else None,
    }
    if dependencies:
        condition = "afterok" if submission.only_after_success else "afterany"
        options["dependency"] = ":".join([condition, *dependencies])
        options["kill-on-invalid-dep"] = "yes"
    written = [f"--{name} {value}" for name, value in options.items() if value is not None]
    if submission.requeue is not None:
        written.append("--requeue" if submission.requeue else "--no-requeue")
    for option in submission.options:
        if not _OPTION.fullmatch(option):
            raise UsageError(
                f"{option[:40]!r} cannot be an option of a scheduler behind Tapis",
                expected="one option and its value, like '--reservation course'",
            )
    return [*written, *submission.options]


def _arguments(texts: Sequence[str]) -> list[dict[str, str]]:
    """Return arguments as Tapis has them: with names, as it takes no two that are alike."""
    return [{"name": f"presage_{number}", "arg": text} for number, text in enumerate(texts)]


def _cores(submission: Submission) -> int | None:
    if submission.cores_per_node is None:
        return submission.tasks_per_node
    return max(submission.cores_per_node, submission.tasks_per_node or 1)


def _rounded_up(amount: float | None, unit: int) -> int | None:
    return None if amount is None else math.ceil(amount / unit)


def _whole(what: str, count: int | None) -> int | None:
    if count is not None and count > _MAX_INT32:
        raise UsageError(f"Tapis has no number for {count} {what}", expected=f"at most {_MAX_INT32:,}")
    return count


def _word(what: str, text: str | None) -> str | None:
    if text is not None and not _WORD.fullmatch(text):
        raise UsageError(f"{text[:40]!r} cannot be the name of a {what}", expected="one word")
    return text
