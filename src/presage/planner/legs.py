"""The jobs of a plan, from the options it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.planner.options import last_request
from presage.planner.plan import Leg

if TYPE_CHECKING:
    from presage.planner.cascades import Piece, Slot
    from presage.planner.options import Option


@dataclass(frozen=True)
class Stretch:
    """Some jobs in a row in one place: their pieces of work and when they would be where."""

    option: Option
    pieces: tuple[Piece, ...]
    slots: tuple[Slot, ...]
    whole_s: float
    """How long the whole job would run there."""


def legs_of(stretches: list[Stretch]) -> tuple[Leg, ...]:
    """Return the legs: within a stretch each waits for the one before, between two the second takes over."""
    legs: list[Leg] = []
    done_share = 0.0
    for index, stretch in enumerate(stretches):
        is_last = index == len(stretches) - 1
        for position, (piece, slot) in enumerate(zip(stretch.pieces, stretch.slots, strict=True)):
            ends = is_last and position == len(stretch.pieces) - 1
            legs.append(_leg(stretch, piece, slot, len(legs) + 1, done_share, begins=position == 0, ends=ends))
            done_share += legs[-1].work_share
    return tuple(legs)


def _leg(
    stretch: Stretch, piece: Piece, slot: Slot, number: int, done_share: float, *, begins: bool, ends: bool
) -> Leg:
    option, place = stretch.option, stretch.option.placement
    before = number - 1 if number > 1 else None
    # One that is to be taken over may have to do all of it, should the better nodes not come.
    asked = last_request(piece, option) if ends else max(option.request_s or 0.0, last_request(piece, option))
    several = len(place.partition.node_types) > 1
    return Leg(
        number, place.system.name, place.system.scheduler, place.partition.name, place.node_type.name, place.share,
        option.workload, asked, piece.work_s, piece.work_s / stretch.whole_s if stretch.whole_s else 1.0,
        slot.submit_s, slot.start_s, slot.end_s,
        chance=_chance(option, done_share), restarts=before is not None, saves=not ends,
        after=None if begins else before, takes_over=before if begins else None,
        spot=place.spot, constraint="&".join(place.node_type.features) if several else "",
    )  # fmt: skip


def _chance(option: Option, done_share: float) -> float:
    """Return the chance that something is left to do after this share of the planned run."""
    if option.run is None or done_share <= 0:
        return 1.0
    return option.run.chance_above(done_share * option.run.quantile(option.assumptions.confidence))
