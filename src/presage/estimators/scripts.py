"""A batch script as its own description: what it asks for, who it is, and the stamp that finds its jobs again.

Directives are read as sbatch reads them: lines that begin with `#SBATCH` up to the first command; the last of two
that say the same wins; variables of the environment (`SBATCH_TIMELIMIT`, …) win over the script, and options of
the command line over both. A directive that is not known here is kept as it stands.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from presage.clusters.charges import Share
from presage.errors import InputError, UnreadableSourceError, UsageError
from presage.estimators._options import ENVIRONMENT, Directive, parse_options, split_directive
from presage.estimators.workloads import ScriptWorkload
from presage.traces.readers.slurm.texts import parse_bytes, parse_duration_s, parse_gres

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAGIC = "#SBATCH"
MOST_BYTES = 4 << 20
"""sbatch takes no larger script by default."""
_UNLIMITED = {"0", "-1", "infinite", "unlimited"}
_STAMP = re.compile(
    r"presage:1 script=(?P<script>[0-9a-f]{12}) args=(?P<arguments>[0-9a-f]{8})"
    r"(?: commit=(?P<commit>[0-9a-f]{7,40}))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMIT_LETTERS = 12


@dataclass(frozen=True)
class Asked:
    """What a job asks for; None: it does not say."""

    partition: str | None = None
    """Several with commas, as Slurm takes them."""
    walltime_s: float | None = None
    """Infinite if it asks for no limit."""
    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: int | None = None
    """Of one node."""
    gpu_type: str | None = None
    memory_bytes: int | None = None
    """Of one node; 0: all that it has."""
    memory_option: str = "mem"
    """By which option it asks for memory: `mem`, `mem-per-cpu` or `mem-per-gpu`."""
    account: str | None = None
    qos: str | None = None
    name: str | None = None
    array: str | None = None
    dependency: str | None = None
    comment: str | None = None
    exclusive: bool = False

    @property
    def share(self) -> Share:
        """What it would hold of each of its nodes, with Slurm's defaults for what it does not say."""
        nodes = self.nodes or _nodes_for(self.tasks, self.tasks_per_node)
        tasks = self.tasks or nodes * (self.tasks_per_node or 1)
        cores = -(-tasks // nodes) * (self.cpus_per_task or 1)
        return Share(nodes, cores, self.gpus or 0, self.memory_bytes or None)


@dataclass(frozen=True)
class Script:
    """A batch script that was read."""

    path: str
    text: str
    arguments: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
    """All that count, in the order in which they count: the script's, the environment's, the command line's."""
    asked: Asked = Asked()

    @property
    def digest(self) -> str:
        """SHA-256 of what it runs. Its directives are left out: who asks for less runs the same script."""
        lines = self.text.split("\n")
        head = _head(lines)
        kept = [line for place, line in enumerate(lines) if place >= head or not line.startswith(MAGIC)]
        return hashlib.sha256("\n".join(kept).encode("utf-8", "surrogateescape")).hexdigest()

    def workload(self, *, user: str = "", folder: Path | None = None) -> ScriptWorkload:
        """Return it as a workload; `folder` is where it would run, by default the script's own."""
        place = Path(self.path).parent if folder is None else folder
        return ScriptWorkload(
            script=self.path, arguments=self.arguments, digest=self.digest, commit=commit_of(place), user=user,
            account=self.asked.account or "", qos=self.asked.qos or "",
            name=self.asked.name or Path(self.path).name, walltime_s=self.asked.walltime_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Stamp:
    """What a job's comment says of the script it was made from; all are the beginnings of digests."""

    script: str
    arguments: str
    commit: str = ""

    def __str__(self) -> str:
        commit = f" commit={self.commit}" if self.commit else ""
        return f"presage:1 script={self.script} args={self.arguments}{commit}"


def read_script(
    path: str | Path,
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Script:
    """Read a batch script and what it asks for.

    `environment` and `options` are what sbatch would be called with. Raises UnreadableSourceError if there is no
    such script, InputError for one that sbatch would not take, UsageError for options that mean nothing.
    """
    text = _text_of(Path(path))
    directives = (
        *directives_in(text, name=str(path)),
        *_of_environment(environment or {}),
        *parse_options(options),
    )
    return Script(str(path), text, tuple(arguments), directives, asked_by(directives))


def directives_in(text: str, *, name: str = "the script") -> tuple[Directive, ...]:
    """Return the directives of a script's text, in their order. Raises InputError for an open quote."""
    lines = text.split("\n")
    found: list[Directive] = []
    for number, line in enumerate(lines[: _head(lines)], start=1):
        if not line.startswith(MAGIC):
            continue
        words = split_directive(line[len(MAGIC) :])
        if words is None:
            raise InputError(
                f"{name}, line {number}: a quote is not closed in {line.strip()!r}",
                expected="a directive that sbatch can read",
            )
        found += parse_options(words, line=number)
    return tuple(found)


def asked_by(directives: Sequence[Directive]) -> Asked:
    """Return what some directives ask for together. Raises InputError for a value that means nothing."""
    # Slurm lets the last one of these three win over the others.
    memory = [each for each in directives if each.option in {"mem", "mem-per-cpu", "mem-per-gpu"}]
    last = {each.option: each for each in directives}
    limit = last.get("time")
    asked = Asked(
        partition=_text(last, "partition"),
        walltime_s=None if limit is None else _seconds(limit),
        nodes=_count(last, "nodes"), tasks=_count(last, "ntasks"), tasks_per_node=_count(last, "ntasks-per-node"),
        cpus_per_task=_count(last, "cpus-per-task"),
        account=_text(last, "account"), qos=_text(last, "qos"), name=_text(last, "job-name"),
        array=_text(last, "array"), dependency=_text(last, "dependency"), comment=_text(last, "comment"),
        exclusive="exclusive" in last,
    )  # fmt: skip
    gpus, gpu_type = _gpus(last, asked.share)
    asked = replace(asked, gpus=gpus, gpu_type=gpu_type)
    if not memory:
        return asked
    amount = _memory(memory[-1], asked.share)
    return replace(asked, memory_bytes=amount, memory_option=memory[-1].option)


def stamp_of(workload: ScriptWorkload) -> Stamp:
    """Return the stamp of a workload. Raises UsageError if the script's text is not known."""
    if not workload.digest:
        raise UsageError(f"{workload.script} has no digest", expected="a script that was read")
    arguments = hashlib.sha256("\0".join(workload.arguments).encode("utf-8", "surrogateescape")).hexdigest()
    return Stamp(workload.digest[:12], arguments[:8], workload.commit[:_COMMIT_LETTERS])


def find_stamp(text: str) -> Stamp | None:
    """Return the first stamp in a comment or a submit line; None if there is none."""
    match = _STAMP.search(text)
    return Stamp(match["script"], match["arguments"], match["commit"] or "") if match else None


def with_stamp(comment: str | None, stamp: Stamp) -> str:
    """Return a job's comment with the stamp behind what it said already; an older stamp gives way."""
    own = _STAMP.sub("", comment or "").strip()
    return f"{own} {stamp}" if own else str(stamp)


def commit_of(folder: Path) -> str:
    """Return the commit that is checked out in `folder` or above it; empty if none is, or it cannot be read."""
    try:
        place = folder.resolve()
        for each in (place, *place.parents):
            if (each / ".git").exists():
                return _head_commit(each / ".git")
    except (OSError, ValueError):
        pass
    return ""


def _head_commit(git: Path) -> str:
    if git.is_file():  # of a linked working tree
        git = (git.parent / git.read_text(errors="replace").removeprefix("gitdir:").strip()).resolve()
    head = (git / "HEAD").read_text(errors="replace").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    shared = (git / common.read_text(errors="replace").strip()).resolve() if common.is_file() else git
    loose = shared / name
    if loose.is_file():
        found = loose.read_text(errors="replace").strip()
        return found if _COMMIT.fullmatch(found) else ""
    packed = shared / "packed-refs"
    lines = packed.read_text(errors="replace").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}") and _COMMIT.match(line)), "")


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than a batch script may be", expected="at most 4 MiB")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UnreadableSourceError(f"{path} cannot be read: {why}", expected="a batch script") from None
    if not raw.startswith(b"#!"):
        raise InputError(
            f"{path} does not begin with an interpreter",
            expected="a first line like #!/bin/bash, without which sbatch takes no script",
        )
    if b"\0" in raw:
        raise InputError(f"{path} has a NUL byte in it", expected="a script of text")
    if b"\r\n" in raw:
        raise InputError(
            f"{path} has lines that end as on Windows, which sbatch does not take", remedy=f"Try dos2unix {path}"
        )
    return raw.decode("utf-8", "surrogateescape")


def _head(lines: Sequence[str]) -> int:
    """Return the number of lines before the first command."""
    for place, line in enumerate(lines):
        bare = line.lstrip()
        if bare and not bare.startswith("#"):
            return place
    return len(lines)


def _of_environment(environment: Mapping[str, str]) -> list[Directive]:
    named = [(option, environment[name]) for name, option in ENVIRONMENT.items() if name in environment]
    return [Directive(option, value) for option, value in named]


def _text(last: Mapping[str, Directive], option: str) -> str | None:
    found = last.get(option)
    return found.value if found is not None and found.value else None


def _nodes_for(tasks: int | None, per_node: int | None) -> int:
    return -(-tasks // per_node) if tasks and per_node else 1


def _count(last: Mapping[str, Directive], option: str) -> int | None:
    """Return a count; of a range like 2-4 its lower end."""
    text = _text(last, option)
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})(k?)(?:-\d{1,9}k?(?::\d{1,9})?)?", text.strip().lower())
    number = int(match[1]) * (1024 if match[2] else 1) if match else 0
    if number < 1:
        raise _unusable(last[option], "a number of at least 1")
    return number


def _seconds(limit: Directive) -> float:
    text = (limit.value or "").strip()
    if text.lower() in _UNLIMITED:
        return math.inf
    seconds = parse_duration_s(text)
    if seconds is None or seconds <= 0:
        raise _unusable(limit, "minutes, or a time like 4:00:00 or 1-12:00:00")
    return 60.0 * math.ceil(seconds / 60)  # as Slurm rounds it


def _gpus(last: Mapping[str, Directive], share: Share) -> tuple[int | None, str | None]:
    """Return the GPUs of a node and their type."""
    tasks = -(-share.cores // max(1, _count(last, "cpus-per-task") or 1))
    times = {"gpus-per-node": 1.0, "gpus-per-task": float(tasks), "gpus": 1 / share.nodes, "gres": 1.0}
    for option, factor in times.items():
        text = _text(last, option)
        if text is None or text.lower() == "none":
            continue
        found = parse_gres(text if option == "gres" else f"gpu:{text}")
        if found is None:
            raise _unusable(last[option], "a list like gpu:a100:2")
        if found[0]:
            return math.ceil(found[0] * factor), found[1]
    return None, None


def _memory(directive: Directive, share: Share) -> int:
    amount = parse_bytes((directive.value or "").strip().upper().removesuffix("B"), unit="M")
    if amount is None:
        raise _unusable(directive, "an amount like 500M or 64G")
    times = {"mem": 1, "mem-per-cpu": share.cores, "mem-per-gpu": max(1, share.gpus)}
    return amount * times[directive.option]


def _unusable(directive: Directive, expected: str) -> InputError:
    where = f" in line {directive.line}" if directive.line else ""
    return InputError(f"--{directive.option}={directive.value}{where} cannot be understood", expected=expected)
