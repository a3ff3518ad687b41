"""What must be true of a system beyond the types of its fields."""

from __future__ import annotations

import re
import zoneinfo
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from presage.clusters._amounts import amount_in_words
from presage.errors import InputError, UnknownNameError, closest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.clusters.systems import Limits, NodeType, Partition, System

_SYSTEM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SECRET = re.compile(r"password|passwd|secret|token|credential", re.IGNORECASE)
_POINTS_ELSEWHERE = ("_file", "_path", "_variable", "_env")
_MOST_LETTERS = 200
_ORDERED = (
    ("min_nodes", "max_nodes"),
    ("min_cores", "max_cores"),
    ("min_walltime_s", "default_walltime_s"),
    ("default_walltime_s", "max_walltime_s"),
    ("min_walltime_s", "max_walltime_s"),
)


def check_system(system: System, source: str, trusted: System | None = None) -> None:
    """Raise InputError that names `source`, the place and what was expected, if a system contradicts itself.

    GPUs and limits that are as in `trusted` pass: a cluster may say of itself what a person should not write.
    """
    if not _SYSTEM_NAME.fullmatch(system.name):
        _refuse(source, f"name is {system.name!r}", "up to 100 letters, digits, dots, dashes and underscores")
    _check_names(source, "node type", [node_type.name for node_type in system.node_types])
    _check_names(source, "partition", [partition.name for partition in system.partitions])
    _check_names(source, "GPU model", [model.name for model in system.gpu_models])
    _check_time_zone(source, system.time_zone)
    _check_connection(source, system.connection)
    passed_gpus = {(each.gpus, each.gpu) for each in trusted.node_types} if trusted else set()
    passed_limits = {each.limits for each in trusted.partitions} if trusted else set()
    for node_type in system.node_types:
        _check_size(source, node_type)
        if (node_type.gpus, node_type.gpu) not in passed_gpus:
            _check_gpus(source, system, node_type)
    for partition in system.partitions:
        _check_partition(source, system, partition)
        if partition.limits not in passed_limits:
            _check_limits(source, f"partition {partition.name!r}", partition.limits)


def _check_names(source: str, noun: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            _refuse(source, f"{noun} {name!r} stands there {times} times", "every name once")
        if not name or name != name.strip() or not name.isprintable() or len(name) > _MOST_LETTERS:
            _refuse(source, f"a {noun} is named {name!r}", f"1 to {_MOST_LETTERS} letters that can be printed")


def _check_time_zone(source: str, zone: str | None) -> None:
    try:
        if zone is not None:
            zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        _refuse(source, f"time_zone is {zone!r}", "a time zone like 'America/New_York' or 'UTC'")


def _check_connection(source: str, connection: dict[str, str]) -> None:
    for key in connection:
        if _SECRET.search(key) and not key.endswith(_POINTS_ELSEWHERE):
            _refuse(source, f"connection.{key} would be a secret", f"the place where it is kept, as {key}_file")


def _check_size(source: str, node_type: NodeType) -> None:
    for field in ("cores", "memory_bytes", "sockets"):
        value = getattr(node_type, field)
        if value < 1:
            _refuse(source, f"node type {node_type.name!r}, {field} is {value}", "at least 1")


def _check_gpus(source: str, system: System, node_type: NodeType) -> None:
    place = f"node type {node_type.name!r}"
    if node_type.gpus and not node_type.gpu:
        _refuse(
            source, f"{place} has gpus = {node_type.gpus} and no gpu", "the model's name, like gpu = 'a100-80'"
        )
    if node_type.gpu and not node_type.gpus:
        _refuse(source, f"{place} has gpu = {node_type.gpu!r} and no gpus", "how many, like gpus = 4")
    try:
        system.gpu_model(node_type)
    except UnknownNameError as error:
        remedy = f"Take {error.suggestion!r}, or" if error.suggestion else "You can"
        problem = f"{source}: {place}, gpu is {node_type.gpu!r}, a model that is not known"
        raise InputError(
            problem, expected=error.expected, remedy=f"{remedy} describe it yourself under [gpu_models.…]"
        ) from None


def _check_partition(source: str, system: System, partition: Partition) -> None:
    known = [node_type.name for node_type in system.node_types]
    place = f"partition {partition.name!r}"
    for name in partition.node_types:
        if name not in known:
            near = closest(name, known)
            expected = f"one of {', '.join(known)}" if known else ""
            raise InputError(
                f"{source}: {place}, node_types names {name!r}, and there is no such node type",
                expected=expected,
                remedy=f"The closest is {near!r}" if near else "Describe it under [node_types.…]",
            )
    _check_names(source, f"node type of {place}", partition.node_types)


def _check_limits(source: str, place: str, limits: Limits) -> None:
    if limits.min_nodes < 1:
        _refuse(source, f"{place}, limits.min_nodes is {limits.min_nodes}", "at least 1")
    for lower, upper in _ORDERED:
        low, high = getattr(limits, lower), getattr(limits, upper)
        if low is not None and high is not None and low > high:
            problem = f"{place}, limits.{lower} is {amount_in_words(lower, low)}"
            _refuse(source, problem, f"no more than {upper}, which is {amount_in_words(upper, high)}")


def _refuse(source: str, problem: str, expected: str) -> NoReturn:
    raise InputError(f"{source}: {problem}", expected=expected)
