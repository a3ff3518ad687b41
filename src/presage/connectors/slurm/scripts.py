"""From a submission to the arguments of `sbatch`.

No text of the submission meets a shell: arguments go to sbatch as a list, the script and the environment as
files.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import UsageError
from presage.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from presage.connectors._base import Submission

MIB = 2**20
KEY_MARK = "presage:key="
_KEY = re.compile(rf"{KEY_MARK}([A-Za-z0-9][A-Za-z0-9._:-]*)")
_WORD = re.compile(r"[\w.,:@+-]+")
_JOB_ID = re.compile(r"\d{1,18}(?:[_+]\d{1,18})?")


def is_job_id(text: str) -> bool:
    """Return whether Slurm could have given a job this id; its commands fail for any other."""
    return _JOB_ID.fullmatch(text) is not None


def key_of(text: str) -> str | None:
    """Return the key in a job's comment or in the line it was submitted with, None if there is none."""
    match = _KEY.search(text)
    return match[1] if match else None


@contextlib.contextmanager
def sbatch_arguments(submission: Submission, ambient: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the arguments of sbatch; the files they name are there while the context lasts.

    Raises UsageError for texts that Slurm would understand otherwise than they are meant.
    """
    with tempfile.TemporaryDirectory(prefix="presage-") as folder:
        script = Path(folder, "script")
        script.write_bytes(os.fsencode(submission.script))
        options = make_options(submission)
        if submission.environment:
            # A file, because --export would split values at commas. It replaces what sbatch passes on by itself.
            pairs = {**ambient, **submission.environment}
            text = "".join(f"{name}={value}\0" for name, value in pairs.items())
            Path(folder, "environment").write_bytes(os.fsencode(text))
            options.append(f"--export-file={folder}/environment")
        yield [*options, str(script), *submission.arguments]


def make_options(submission: Submission) -> list[str]:
    """Return the options of sbatch for a submission, without those that name files of ours."""
    comment = f"{KEY_MARK}{submission.key} {_plain(submission.comment)}".strip()
    options = {
        "job-name": _plain(submission.name),
        "comment": comment,
        "chdir": submission.working_directory,
        "output": None if submission.output is None else _output(submission.output),
        "partition": _word("partition", submission.partition),
        "account": _word("account", submission.account),
        "qos": _word("QOS", submission.qos),
        **_sizes(submission),
    }
    if submission.walltime_s is not None:
        options["time"] = format_seconds(submission.walltime_s)
    if submission.signal is not None:
        options["signal"] = f"B:{submission.signal}@{math.ceil(submission.signal_before_s)}"
    if submission.depends_on:
        options["dependency"] = _dependency(submission)
        options["kill-on-invalid-dep"] = "yes"
    written = [f"--{name}={value}" for name, value in options.items() if value is not None]
    if submission.requeue is not None:
        written.append("--requeue" if submission.requeue else "--no-requeue")
    return [*written, *submission.options]


def _sizes(submission: Submission) -> dict[str, str | None]:
    tasks, cores, gpus = submission.tasks_per_node, submission.cores_per_node, submission.gpus_per_node
    per_task = None if cores is None else math.ceil(cores / (tasks or 1))
    kind = _word("GPU type", submission.gpu_type)
    memory_mib = None if submission.memory_bytes is None else math.ceil(submission.memory_bytes / MIB)
    return {
        "nodes": _text(submission.nodes),
        "ntasks-per-node": _text(tasks if tasks or cores is None else 1),
        "cpus-per-task": _text(per_task),
        "gpus-per-node": (f"{kind}:{gpus}" if kind else str(gpus)) if gpus else None,
        "mem": None if memory_mib is None else f"{memory_mib}M",
    }


def _dependency(submission: Submission) -> str:
    for job_id in submission.depends_on:
        if not is_job_id(job_id):
            raise UsageError(f"{job_id[:40]!r} cannot be the id of a Slurm job", expected="a number")
    kind = "afterok" if submission.only_after_success else "afterany"
    return ":".join([kind, *submission.depends_on])


def _output(path: str) -> str:
    """Return a path in which Slurm replaces nothing but `%j`."""
    if "\\" in path or "\n" in path:
        raise UsageError(
            f"Slurm cannot write output to {path!r}", expected="a path without backslashes and line ends"
        )
    return re.sub(r"%(?!j|%)", "%%", path.replace("%%", "%")) if "%%" in path else re.sub(r"%(?!j)", "%%", path)


def _plain(text: str) -> str:
    """Return a text for people on one line, which listings of jobs rely on."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _word(what: str, text: str | None) -> str | None:
    if text is not None and not _WORD.fullmatch(text):
        raise UsageError(f"{text[:40]!r} cannot be the name of a {what}", expected="one word")
    return text


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
