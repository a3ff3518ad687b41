"""What Slurm's texts mean: ids, states, durations, memory, trackable resources (TRES), dependencies.

All functions are pure and give None for a text that means nothing; whether that rejects the row is the reader's
business. Many jobs share the same text, so readers parse each distinct one once (`decoded`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MISSING = (
    "Unknown", "None", "None assigned", "N/A", "(null)", "null", "NULL", "\\N", "INVALID", "?", "Partition_Limit",
)  # fmt: skip
"""Texts of times, amounts and lists that say that there is none."""
KIB = 1024
MIB = 1024**2
NO_VALUE_32 = 4294967294
INFINITE_32 = 4294967295
NO_VALUE_64 = 18446744073709551614
_PER_CPU_32_MIB = 2**31
_PER_CPU_64_MIB = 2**63
_ROUNDED_PER_CPU_64_MIB = 9.2e18
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@dataclass(frozen=True)
class State:
    """What a state says of a job and, where another record of the job follows, of that stretch of running."""

    job: Outcome
    attempt: Outcome
    goes_on: bool = False
    """The job is run again, or on, under the same id."""


def _state(job: Outcome, attempt: Outcome | None = None, *, goes_on: bool = False) -> State:
    return State(job, attempt or job, goes_on)


STATES: Mapping[str, State] = {
    "PENDING": _state(Outcome.PENDING),
    "RUNNING": _state(Outcome.RUNNING),
    "SUSPENDED": _state(Outcome.RUNNING, Outcome.SUSPENDED),
    "COMPLETED": _state(Outcome.COMPLETED),
    "CANCELLED": _state(Outcome.CANCELLED),
    "FAILED": _state(Outcome.FAILED),
    "TIMEOUT": _state(Outcome.TIMEOUT),
    "NODE_FAIL": _state(Outcome.NODE_FAILURE, goes_on=True),
    "PREEMPTED": _state(Outcome.PREEMPTED, goes_on=True),
    "BOOT_FAIL": _state(Outcome.NODE_FAILURE, goes_on=True),
    # Ended by the scheduler for a date, perhaps before it ran: no overrun of its own limit.
    "DEADLINE": _state(Outcome.CANCELLED),
    "OUT_OF_MEMORY": _state(Outcome.OUT_OF_MEMORY),
    "COMPLETING": _state(Outcome.RUNNING),
    "CONFIGURING": _state(Outcome.RUNNING),
    "POWER_UP_NODE": _state(Outcome.RUNNING),
    "STAGE_OUT": _state(Outcome.RUNNING),
    "SIGNALING": _state(Outcome.RUNNING),
    "STOPPED": _state(Outcome.RUNNING),
    "RESIZING": _state(Outcome.RUNNING, Outcome.SUSPENDED, goes_on=True),
    "REQUEUED": _state(Outcome.PENDING, Outcome.REQUEUED, goes_on=True),
    "REQUEUE_FED": _state(Outcome.PENDING, Outcome.REQUEUED, goes_on=True),
    "REQUEUE_HOLD": _state(Outcome.PENDING, Outcome.REQUEUED, goes_on=True),
    "SPECIAL_EXIT": _state(Outcome.PENDING, Outcome.REQUEUED, goes_on=True),
    "RESV_DEL_HOLD": _state(Outcome.PENDING, Outcome.REQUEUED, goes_on=True),
    "LAUNCH_FAILED": _state(Outcome.NODE_FAILURE, goes_on=True),
    "RECONFIG_FAIL": _state(Outcome.NODE_FAILURE, goes_on=True),
    "REVOKED": _state(Outcome.CANCELLED),  # the job started on another cluster of the federation
}

_STATE_CODES = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
    "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
)  # fmt: skip
_STATE_FLAGS = {
    0x2000: "RESIZING",
    0x0400: "REQUEUED",
    0x0800: "REQUEUE_HOLD",
    0x1000: "SPECIAL_EXIT",
    0x4000: "CONFIGURING",
    0x8000: "COMPLETING",
    0x0100: "LAUNCH_FAILED",
}


def parse_state(text: str) -> str | None:
    """Return the state's word, a key of STATES, for a text or a number of slurmdbd.

    `CANCELLED by 1000` is CANCELLED, and so is `CANCELLED+`, cut off by the width of a column.
    """
    if text.isdecimal():
        return _state_of_code(int(text))
    word = text.split(maxsplit=1)[0].upper() if text.strip() else ""
    if word.endswith("+"):
        whole = [state for state in STATES if len(word) > 2 and state.startswith(word[:-1])]
        return whole[0] if len(whole) == 1 else None
    return word if word in STATES else None


def _state_of_code(code: int) -> str | None:
    for flag, word in _STATE_FLAGS.items():
        if code & flag:
            return word
    return _STATE_CODES[code & 0xFF] if code & 0xFF < len(_STATE_CODES) and code < 0x10000 else None


JOB_ID = re.compile(
    r"(?P<job>\d{1,18})(?:_(?P<task>\d{1,18})|_\[(?P<pending>[^\]]*)\]?|\+(?P<offset>\d{1,18}))?"
    r"(?:\.(?P<step>[A-Za-z0-9][\w+]*))?"
)


class JobId(NamedTuple):
    """The parts of `123`, `123_4`, `123_[5-9%2]` (pending tasks of an array), `123+1` or a step `123_4.batch`."""

    job_id: str
    """The id without the step."""
    array_id: str | None = None
    array_task: int | None = None
    het_id: str | None = None
    het_offset: int | None = None
    step: str | None = None
    """batch, extern, 0, …; None for the job itself."""
    is_pending_array: bool = False


def parse_job_id(text: str) -> JobId | None:
    """Return the parts of a job id; None if the text is none."""
    match = JOB_ID.fullmatch(text)
    if not match:
        return None
    job, task, pending, offset, step = match.group("job", "task", "pending", "offset", "step")
    in_array = task is not None or pending is not None
    return JobId(
        job_id=text.removesuffix(f".{step}") if step else text,
        array_id=job if in_array else None,
        array_task=int(task) if task else None,
        het_id=job if offset else None,
        het_offset=int(offset) if offset else None,
        step=step,
        is_pending_array=pending is not None,
    )


_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}(?:\.\d+)?))?(?::(\d{1,9}(?:\.\d+)?))?")


def parse_duration_s(text: str) -> float | None:
    """Return seconds of `[D-]HH:MM:SS[.mmm]`, `MM:SS[.mmm]`, `D-HH[:MM]` or minutes; UNLIMITED is infinite."""
    match = _DURATION.fullmatch(text)
    if not match:
        return math.inf if text.upper() == "UNLIMITED" else None
    days, *parts = match.groups()
    first, second, third = (float(part) if part else 0.0 for part in parts)
    if days or parts[2]:
        return float(days or 0) * 86400 + first * 3600 + second * 60 + third
    return first * 60 + second


_QUANTITY = re.compile(r"(\d{1,20}(?:\.\d+)?(?:[eE]\+?\d{1,2})?)([KMGTPE]?)")


def parse_amount(text: str) -> float | None:
    """Return a count as sacct shows it: `12`, or `1.50K` for 1,536."""
    return _quantity(text, unit="")


def parse_bytes(text: str, unit: str = "") -> int | None:
    """Return bytes of `114944K` or `0.50G`, or of a bare number in `unit` (K, M, …)."""
    value = _quantity(text, unit=unit)
    return None if value is None else round(value)


def _quantity(text: str, *, unit: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if not match:
        return None
    value = float(match[1]) * float(KIB ** _POWERS[match[2] or unit])
    return value if value < 2.0**63 else None  # beyond it stands "no value"


class Memory(NamedTuple):
    """An amount of memory that was asked for, and for what: "cpu", "node" or the whole "job"."""

    size_bytes: int | None
    per: str


def parse_memory(text: str) -> Memory | None:
    """Return what ReqMem or slurmdbd's mem_req asks for; bare numbers are MiB.

    `4Gc` is per CPU, `48000Mn` per node; without a letter it is the whole job's. Some versions show Slurm's flag
    for "per CPU" as part of the number: 2^31 in `2147486448Mn`, 2^63 in slurmdbd. The flag is taken off; where the
    table was rounded, nothing is left behind it. Zero asks for all there is: no amount.
    """
    number, letter = (text[:-1], text[-1]) if text[-1:] in {"c", "n"} else (text, "")
    match = _QUANTITY.fullmatch(number)
    if not match:
        return None
    mib = float(match[1]) * KIB ** _POWERS[match[2] or "M"] / MIB
    if mib >= _ROUNDED_PER_CPU_64_MIB:
        left = int(match[1]) - _PER_CPU_64_MIB if match[1].isdecimal() else 0
        return Memory(left * MIB if 0 < left < _PER_CPU_32_MIB else None, "cpu")
    if _PER_CPU_32_MIB <= mib < 2 * _PER_CPU_32_MIB:
        return Memory(round((mib - _PER_CPU_32_MIB) * MIB) or None, "cpu")
    size_bytes = round(mib * MIB)
    return Memory(size_bytes if 0 < size_bytes < 2**63 else None, {"c": "cpu", "n": "node", "": "job"}[letter])


def parse_exit_code(text: str) -> tuple[int, int | None] | None:
    """Return code and signal of `7:0` or `0:9`; signal 0 is none."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    return (int(match[1]), int(match[2]) or None) if match else None


class Tres(NamedTuple):
    """The resources of a job that a TRES text names; None is not named."""

    cpus: float | None = None
    mem_bytes: int | None = None
    nodes: int | None = None
    gpus: float | None = None
    gpu_type: str | None = None


TRES_COLUMNS = {
    "cpus": pl.Float64, "mem_bytes": pl.Int64, "nodes": pl.Int64, "gpus": pl.Float64, "gpu_type": pl.String,
}  # fmt: skip
FIRST_SITE_ID = 1001
"""TRES numbers from here on are given by each site, as a rule to gres/gpu first."""
_TRES_NUMBERS = {"1": "cpu", "2": "mem", "4": "node"}


def parse_tres(text: str, gpu_id: int = FIRST_SITE_ID) -> Tres | None:
    """Return what `cpu=12,mem=48000M,node=1,gres/gpu:a100=2` says, or the same with numbers for names.

    Memory is in MiB unless it has a unit. `gpu_id` is the number that means GPUs at this site. None for a text
    that was cut off or is no list of resources.
    """
    amounts: dict[str, float] = {}
    for item in text.strip(",").split(","):
        name, equals, value = item.strip().partition("=")
        if not equals or value.endswith("+"):
            return None
        name = "gres/gpu" if name == str(gpu_id) else _TRES_NUMBERS.get(name, name)
        quantity = _quantity(value, unit="M" if name == "mem" else "")
        if quantity is not None:
            amounts[name] = quantity
    return tres_of(amounts)


def tres_of(amounts: Mapping[str, float]) -> Tres:
    """Return the resources of names like `cpu`, `mem` (bytes), `node`, `gres/gpu`, `gres/gpu:a100`."""
    typed = {name.partition(":")[2]: count for name, count in amounts.items() if name.startswith("gres/gpu:")}
    gpus = amounts.get("gres/gpu", sum(typed.values()) if typed else None)
    memory, nodes = amounts.get("mem"), amounts.get("node")
    return Tres(
        cpus=amounts.get("cpu"),
        mem_bytes=round(memory) if memory else None,
        nodes=round(nodes) if nodes else None,
        gpus=gpus,
        gpu_type="|".join(typed) or None,
    )


_MAX_LIST_CHARS = 10_000  # no list of resources or dependencies is longer, and parentheses take quadratic time
_GPU_PLUGIN = "7696487"  # what releases before 20.11 recorded for the word gpu


def parse_gres(text: str) -> tuple[float, str | None] | None:
    """Return number and type of the GPUs in `gpu:a100:2(S:0-1)` or `gres/gpu:4,shard:1`; None if it is no gres."""
    if len(text) > _MAX_LIST_CHARS:
        return None
    count, kinds = 0.0, []
    items = re.sub(r"\([^)]*\)", "", text).split(",")
    for item in items:
        parts = re.sub(r"^(?:PER_\w+:)?(?:gres[:/])?", "", item.strip()).replace("=", ":").split(":")
        if not parts[0] or not re.fullmatch(r"[\w-]+", parts[0]):
            return None
        if parts[0] not in {"gpu", _GPU_PLUGIN}:
            continue
        number = parts[-1] if len(parts) > 1 and parts[-1].isdecimal() else "1"
        count += float(number[:9])
        kinds += [part for part in parts[1:] if part and not part.isdecimal()]
    return count, "|".join(dict.fromkeys(kinds)) or None


class Dependency(NamedTuple):
    """One job that another one waits for."""

    kind: str
    depends_on: str
    delay_s: float | None


def parse_dependency(text: str) -> list[Dependency]:
    """Return the jobs named in `afterok:12:13,afterany:14_2` or `after:15+10(unfulfilled)`; delays are minutes.

    A whole array, `16_*`, is named by its id. `singleton` names no job.
    """
    found: list[Dependency] = []
    if len(text) > _MAX_LIST_CHARS:
        return found
    for item in re.split(r"[,?]", re.sub(r"\([^)]*\)", "", text)):
        kind, *jobs = item.strip().split(":")
        for job in jobs:
            match = re.fullmatch(r"(\d+(?:_\d+)?)(?:_\*)?(?:\+(\d{1,9}))?", job.strip())
            if match and re.fullmatch(r"[a-z]+", kind):
                found.append(Dependency(kind, match[1], float(match[2]) * 60 if match[2] else None))
    return found


def decoded(
    table: pl.DataFrame,
    column: str,
    decode: Callable[[str], Any],
    fields: Mapping[str, pl.DataType | type[pl.DataType]],
) -> pl.DataFrame:
    """Return `table` with the columns `fields`, which `decode` gives for every distinct text of `column`.

    `decode` returns a value for one field, a tuple for several, None for null. Columns of those names give way.
    """
    table = table.drop(fields, strict=False)
    if column not in table.columns:
        return table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in fields.items())
    texts = table[column].drop_nulls().unique().to_list()
    values = [decode(text) for text in texts]
    rows = (
        [(value,) for value in values]
        if len(fields) == 1
        else [value or (None,) * len(fields) for value in values]
    )
    meaning = pl.DataFrame(rows, schema=dict(fields), orient="row").with_columns(
        pl.Series(column, texts, pl.String)
    )
    found = table.select(column).join(meaning, on=column, how="left", maintain_order="left")
    return table.hstack(found.drop(column))
