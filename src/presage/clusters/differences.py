"""What changed between two descriptions of a system, in words."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from presage.clusters._amounts import amount_in_words, without_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.clusters.gpus import GpuModel
    from presage.clusters.systems import NodeType, Partition, System

    Named = NodeType | Partition | GpuModel

_ARROW = " → "


def differences(before: System, after: System) -> tuple[str, ...]:
    """Return one phrase per difference; none if the two are equal.

    For example "partition gpu: max walltime 1-00:00:00 → 2-00:00:00", "node type c48 added".
    """
    return (
        *_of_fields(before, after, skip={"node_types", "partitions", "gpu_models"}),
        *_of_named("GPU model", before.gpu_models, after.gpu_models),
        *_of_named("node type", before.node_types, after.node_types),
        *_of_named("partition", before.partitions, after.partitions),
    )


def _of_named(noun: str, before: tuple[Named, ...], after: tuple[Named, ...]) -> Iterator[str]:
    old = {thing.name: thing for thing in before}
    new = {thing.name: thing for thing in after}
    yield from (f"{noun} {name} removed" for name in old if name not in new)
    yield from (f"{noun} {name} added" for name in new if name not in old)
    for name in old:
        if name in new:
            yield from (f"{noun} {name}: {change}" for change in _of_fields(old[name], new[name]))
    if old.keys() == new.keys() and list(old) != list(new):
        yield f"{noun}s in another order: {', '.join(new)}"


def _of_fields(before: Any, after: Any, skip: set[str] | None = None) -> Iterator[str]:
    for field in fields(before):
        if field.name in (skip or ()):
            continue
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old == new:
            continue
        if is_dataclass(old) and is_dataclass(new):
            # What a job may have is said of the partition itself; other parts keep their name.
            inside = "" if field.name == "limits" else f"{field.name} "
            yield from (f"{inside}{change}" for change in _of_fields(old, new))
        elif isinstance(old, dict) and isinstance(new, dict):
            yield from _of_dicts(field.name, old, new)
        else:
            yield _change(without_unit(field.name), *_both(field.name, old, new))


def _of_dicts(field: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for key in old | new:
        if old.get(key) != new.get(key):
            yield _change(f"{without_unit(field)} {key}", *_both(key, old.get(key), new.get(key)))


def _change(what: str, old: str, new: str) -> str:
    return f"{what} {old}{_ARROW}{new}"


def _both(field: str, old: Any, new: Any) -> tuple[str, str]:
    shown = _shown(field, old), _shown(field, new)
    # Rounded for reading, two numbers may look the same.
    return shown if shown[0] != shown[1] else (repr(old), repr(new))


def _shown(field: str, value: Any) -> str:
    if value is None:
        return "none"
    if is_dataclass(value):
        return (
            ", ".join(
                f"{without_unit(each.name)} {_shown(each.name, getattr(value, each.name))}"
                for each in fields(value)
                if getattr(value, each.name) != each.default
            )
            or "as by default"
        )
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return repr(str(value)) if isinstance(value, str) else amount_in_words(field, value)
