"""All ways to do a job: its variants × systems × partitions × node types × counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from presage.clusters.charges import Share
from presage.errors import UsageError
from presage.planner.constraints import UNCONSTRAINED, Constraints
from presage.planner.estimates import RememberedEstimates
from presage.planner.options import USUAL, Assumptions, Option, Variant, assess
from presage.planner.places import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from presage.clusters.systems import NodeType, Partition, System
    from presage.planner.estimates import Estimates

MOST_OPTIONS = 2000


@dataclass(frozen=True)
class Counts:
    """How much of the nodes to try."""

    nodes: tuple[int, ...] = ()
    """Empty: as few as the partition gives."""
    gpus: tuple[int, ...] = ()
    """Of one node. With a 0 among them, nodes without GPUs will do. Empty: none where there are none, and one,
    two, four… up to all where there are some."""
    cores: int | None = None
    """Of one node; None: all, or those that come with the GPUs."""
    memory_bytes: int | None = None
    """Of one node; None: what it takes."""


USUAL_COUNTS = Counts()


def cross(
    variants: Sequence[Variant],
    systems: Sequence[System],
    estimates: Estimates,
    *,
    counts: Counts = USUAL_COUNTS,
    constraints: Constraints = UNCONSTRAINED,
    assumptions: Assumptions = USUAL,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Option]:
    """Return every option, possible or not, in the order of the systems; each distinct thing is estimated once.

    Raises UsageError if there are none, or more than MOST_OPTIONS.
    """
    places = [place for place in placements(systems, counts) if constraints.allows(place)]
    wanted = [(variant, place) for place in places for variant in variants]
    _check_number(len(wanted), constraints)
    remembered = RememberedEstimates(estimates)
    options = []
    for done, (variant, place) in enumerate(wanted):
        if progress is not None:
            progress(done, len(wanted), place.name)
        options.append(_judged(assess(variant, place, remembered, assumptions), constraints))
    return options


def _check_number(number: int, constraints: Constraints) -> None:
    if not number:
        raise UsageError(
            "There is no place to plan for",
            expected=f"something that matches {' or '.join(constraints.only)}" if constraints.only else "a system",
            remedy="Name other systems, or other patterns with --only",
        )
    if number > MOST_OPTIONS:
        raise UsageError(
            f"There are {number:,} combinations to plan",
            expected=f"at most {MOST_OPTIONS:,}",
            remedy="Name fewer systems, batches or counts, or some places with --only",
        )


def _judged(option: Option, constraints: Constraints) -> Option:
    if option.completion is None or option.cost is None:
        return option
    return replace(option, reasons=constraints.reasons_against(option.completion, option.cost, option.currency))


def placements(systems: Sequence[System], counts: Counts) -> Iterator[Placement]:
    """Yield every place that there is, system by system, in each size that is asked for."""
    for system in systems:
        for partition in system.partitions:
            for name in partition.node_types:
                yield from _of_node_type(system, partition, system.node_type(name), counts)


def _of_node_type(
    system: System, partition: Partition, node_type: NodeType, counts: Counts
) -> Iterator[Placement]:
    spots = (False, True) if system.charge_of(partition).spot_node_hour is not None else (False,)
    for nodes in dict.fromkeys(counts.nodes or (max(1, partition.limits.min_nodes),)):
        for gpus in _gpu_counts(node_type, counts):
            for spot in spots:
                share = Share(nodes, _cores(partition, node_type, gpus, counts), gpus, counts.memory_bytes)
                yield Placement(system, partition, node_type, share, spot)


def _gpu_counts(node_type: NodeType, counts: Counts) -> tuple[int, ...]:
    if not counts.gpus:
        if not node_type.gpus:
            return (0,)
        powers = [
            1 << exponent for exponent in range(node_type.gpus.bit_length()) if 1 << exponent < node_type.gpus
        ]
        return (*powers, node_type.gpus)
    asked = tuple(dict.fromkeys(counts.gpus))
    if 0 in asked and len(asked) > 1:  # so GPUs are wanted where there are any, and may be missing elsewhere
        return tuple(count for count in asked if count) if node_type.gpus else (0,)
    return asked


def _cores(partition: Partition, node_type: NodeType, gpus: int, counts: Counts) -> int:
    if counts.cores is not None:
        return counts.cores
    if partition.exclusive or not gpus or not node_type.gpus:
        return node_type.cores
    return max(1, node_type.cores * min(gpus, node_type.gpus) // node_type.gpus)
