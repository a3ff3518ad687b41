"""Starting in one place and moving to a better one when its nodes come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.planner.cascades import Piece, Slot, schedule
from presage.planner.combining import combine
from presage.planner.legs import Stretch

if TYPE_CHECKING:
    from presage.estimators.spread import Spread
    from presage.planner.options import Option


@dataclass(frozen=True)
class Move:
    """A job that begins on `first` and goes on on `second` from when that starts."""

    first: Option
    second: Option
    completion: Spread
    cost: Spread
    moved_s: float
    """When it moves, if waits are as long as their medians."""
    done_share: float
    """Of the job, by then."""
    run: Spread
    """Wall time that is worked in both places."""


@dataclass(frozen=True)
class _Course:
    """What happens for one set of waits and run times."""

    end_s: float
    cost: float
    moved_s: float
    done_share: float
    """1 if it never moves."""
    worked_s: float


def move(first: Option, second: Option) -> Move | None:
    """Return what comes of it; None if it would not move, or not before anything was done on `first`."""
    if first.run is None or second.run is None or not _can_queue_both(first, second):
        return None

    def course(first_wait: float, second_wait: float, first_run: float, second_run: float) -> _Course:
        return _follow(first, second, first_wait, second_wait, first_run, second_run)

    amounts = (first.wait_s, second.wait_s, first.run, second.run)
    usual = course(*(amount.p50 for amount in amounts))
    if not 0 < usual.done_share < 1:
        return None
    completion = combine(lambda *each: course(*each).end_s, *amounts)
    cost = combine(lambda *each: course(*each).cost, *amounts)
    run = combine(lambda *each: course(*each).worked_s, *amounts)
    return Move(first, second, completion, cost, usual.moved_s, usual.done_share, run)


def stretches_of(moved: Move) -> list[Stretch]:
    """Return the jobs before and after the move, with as long a run as is planned for."""
    first, second = moved.first, moved.second
    whole_s = _careful(first)
    pieces, slots = _until(first, moved.moved_s, first.pieces(whole_s), first.wait_s.p50)
    rest_s = max(0.0, 1.0 - sum(piece.work_s for piece in pieces) / whole_s) * _careful(second)
    after = second.pieces(rest_s, restarted=True)
    times = _slots_after(second, moved.moved_s + first.overheads.save_s, after)
    times[0] = Slot(second.transfer_s, times[0].start_s, times[0].end_s)
    return [
        Stretch(first, pieces, tuple(slots), whole_s),
        Stretch(second, after, tuple(times), _careful(second)),
    ]


def _follow(
    first: Option, second: Option, first_wait: float, second_wait: float, first_run: float, second_run: float
) -> _Course:
    pieces = first.pieces(first_run)
    slots = schedule(pieces, first_wait, first_wait, first.queueing)
    paid = first.transfer_cost + sum(first.cost_of(piece.elapsed_s) for piece in pieces)
    stays = _Course(slots[-1].end_s, paid, 0.0, 1.0, first_run)
    moved_s = max(second.transfer_s + second_wait, first.transfer_s)
    done, under_way = _until(first, moved_s, pieces, first_wait)
    share = min(1.0, sum(piece.work_s for piece in done) / first_run) if first_run else 1.0
    rest = second.pieces((1.0 - share) * second_run, restarted=True)
    if share >= 1.0 or not rest:
        return stays
    times = _slots_after(second, moved_s + (first.overheads.save_s if under_way else 0.0), rest, second_wait)
    if times[-1].end_s >= stays.end_s:
        return stays
    cost = first.transfer_cost + sum(first.cost_of(piece.elapsed_s) for piece in done)
    cost += second.transfer_cost + sum(second.cost_of(piece.elapsed_s) for piece in rest)
    worked_s = sum(piece.work_s for piece in (*done, *rest))
    return _Course(times[-1].end_s, cost, moved_s, share, worked_s)


def _until(
    option: Option, end_s: float, pieces: tuple[Piece, ...], wait_s: float
) -> tuple[tuple[Piece, ...], list[Slot]]:
    """Return the jobs that have started by `end_s`, the last cut off there and saved."""
    overheads = option.overheads
    kept: list[Piece] = []
    slots: list[Slot] = []
    for index, (piece, slot) in enumerate(
        zip(pieces, schedule(pieces, wait_s, wait_s, option.queueing), strict=True)
    ):
        lost = overheads.startup_s + (overheads.restart_s if index else 0.0)
        if slot.start_s + lost >= end_s:
            break
        worked = min(piece.work_s, end_s - slot.start_s - lost)
        if worked < piece.work_s:
            piece = Piece(worked, lost + worked + overheads.save_s)  # noqa: PLW2901  (it is the piece that was done)
        kept.append(piece)
        slots.append(Slot(slot.submit_s, slot.start_s, slot.start_s + piece.elapsed_s))
    return tuple(kept), slots


def _slots_after(
    option: Option, start_s: float, pieces: tuple[Piece, ...], wait_s: float | None = None
) -> list[Slot]:
    later = option.wait_s.p50 if wait_s is None else wait_s
    slots = schedule(pieces, 0.0, later, option.queueing)
    shift = start_s - slots[0].start_s
    return [Slot(slot.submit_s + shift, slot.start_s + shift, slot.end_s + shift) for slot in slots]


def _careful(option: Option) -> float:
    return option.run.quantile(option.assumptions.confidence) if option.run is not None else 0.0


def _can_queue_both(first: Option, second: Option) -> bool:
    """Return whether a user may have a job wait in one place while another runs in the other."""
    here, there = first.placement, second.placement
    if first.currency != second.currency or first.variant != second.variant:
        return False
    if (here.system.name, here.partition.name) != (there.system.name, there.partition.name):
        return True
    limits, one, two = here.partition.limits, here.share, there.share
    together = (
        (2, limits.user_submitted_jobs),
        (2, limits.user_running_jobs),
        (one.nodes + two.nodes, limits.user_nodes),
        (one.nodes * one.cores + two.nodes * two.cores, limits.user_cores),
        (one.nodes * one.gpus + two.nodes * two.gpus, limits.user_gpus),
    )
    return all(allowed is None or needed <= allowed for needed, allowed in together)
